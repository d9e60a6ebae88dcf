import { type Issue, ToolError } from '@gantry/contract'

/** What an option may be: a number within bounds, or a function. */
export type OptionShape =
  | { readonly kind: 'number'; readonly least: number; readonly most?: number; readonly whole?: boolean }
  | { readonly kind: 'function' | 'string' }

/** Refuses options nobody reads and values that make no sense, all of them at once, with CONFIG_INVALID. */
export function checkShapes(
  what: string,
  options: object,
  shapes: { readonly [key: string]: OptionShape },
  needed: readonly string[] = [],
): void {
  const given = Object.entries({ ...Object.fromEntries(needed.map((key) => [key, undefined])), ...options })
  const issues = given.flatMap(([key, value]): Issue[] => {
    const shape = Object.hasOwn(shapes, key) ? shapes[key] : undefined
    if (shape === undefined) {
      return [{ path: `/${key}`, message: `is not an option; there are ${Object.keys(shapes).join(', ')}` }]
    }
    const absent = value === undefined && !needed.includes(key)
    return absent || fits(shape, value) ? [] : [{ path: `/${key}`, message: `must be ${words(shape)}` }]
  })
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `${what} was given wrong options: ${text}.`, { details: { issues } })
}

function fits(shape: OptionShape, value: unknown): boolean {
  if (shape.kind !== 'number') return typeof value === shape.kind
  if (typeof value !== 'number' || !Number.isFinite(value) || (shape.whole === true && !Number.isInteger(value))) {
    return false
  }
  return value >= shape.least && value <= (shape.most ?? Number.MAX_SAFE_INTEGER)
}

function words(shape: OptionShape): string {
  if (shape.kind !== 'number') return `a ${shape.kind}`
  const kind = shape.whole === true ? 'a whole number' : 'a number'
  return shape.most === undefined
    ? `${kind} of at least ${shape.least}`
    : `${kind} from ${shape.least} to ${shape.most}`
}
