import { type Issue, ToolError } from '@gantry/contract'
import { unknownKeys } from '@gantry/core/internal/search/index'

/** What every format can be told. */
export interface AdapterOptions {
  /** Longest text of a result, in characters; the middle of a longer one is left out. 50,000 when absent. */
  readonly maxChars?: number
  /** Takes characters that a person cannot see out of descriptions; on unless false. */
  readonly clean?: boolean
}

export const defaultMaxChars = 50_000

/** A note on what was left out needs some room itself. */
const leastChars = 200

type Fits = (value: unknown) => string | undefined

const common: { readonly [option: string]: Fits } = {
  maxChars: (value) =>
    Number.isSafeInteger(value) && Number(value) >= leastChars
      ? undefined
      : `must be a whole number of at least ${leastChars}`,
  clean: flag,
}

export function flag(value: unknown): string | undefined {
  return typeof value === 'boolean' ? undefined : 'must be true or false'
}

/** Throws CONFIG_INVALID for options that nobody reads and values that do not fit; `own` are those of one format. */
export function checkAdapterOptions(
  name: string,
  options: object,
  own: { readonly [option: string]: Fits } = {},
): void {
  const fits = new Map(Object.entries({ ...common, ...own }))
  const issues: Issue[] = [...unknownKeys(options, [...fits.keys()], '', 'is not an option')]
  for (const [key, value] of Object.entries(options)) {
    const message = value === undefined ? undefined : fits.get(key)?.(value)
    if (message !== undefined) issues.push({ path: `/${key}`, message })
  }
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `${name} was given wrong options: ${text}.`, { details: { issues } })
}
