import { type Issue, ToolError } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { isObject } from '../../json/kinds.ts'
import { unknownKeys } from '../../search/near.ts'

/** Says what is wrong with a value of the configuration, if anything. */
export type Shape = (value: unknown, path: string) => readonly Issue[]

/** Throws CONFIG_INVALID with every issue; `what` begins the sentence. */
export function refuseConfig(what: string, issues: readonly Issue[]): void {
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path || 'it'} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `${what} is wrong: ${text}.`, { details: { issues } })
}

/** An argument that cannot be sent as the binding says; nothing was sent. */
export function badArgument(argument: string, message: string): ToolError {
  const issue: Issue = { path: `/${escapeSegment(argument)}`, message }
  return new ToolError('INPUT_INVALID', `The argument ${issue.path} ${message}.`, { details: { issues: [issue] } })
}

/** One rule for a value, and the words for it. */
export function rule(fits: (value: unknown) => boolean, message: string): Shape {
  return (value, path) => (fits(value) ? [] : [{ path, message }])
}

export const text = rule((value) => typeof value === 'string', 'must be a string')
export const flag = rule((value) => typeof value === 'boolean', 'must be true or false')

/** A string that a rule of its own accepts; the rule returns what is wrong. */
export function ruled(fault: (value: string) => string | undefined): Shape {
  return (value, path) => {
    const message = typeof value === 'string' ? fault(value) : 'must be a string'
    return message === undefined ? [] : [{ path, message }]
  }
}

export function oneOf(...words: readonly string[]): Shape {
  return rule((value) => typeof value === 'string' && words.includes(value), `must be one of ${words.join(', ')}`)
}

export function whole(least: number, most: number): Shape {
  const fits = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most
  return rule(fits, `must be a whole number from ${least} to ${most}`)
}

export function listOf(shape: Shape): Shape {
  return (value, path) =>
    Array.isArray(value)
      ? value.flatMap((item, index) => shape(item, `${path}/${index}`))
      : [{ path, message: 'must be a list' }]
}

/** An object whose keys are free; `key` says what is wrong with one. */
export function mapOf(shape: Shape, key: (name: string) => string | undefined = () => undefined): Shape {
  return (value, path) => {
    if (!isObject(value)) return [{ path, message: 'must be an object' }]
    return Object.entries(value).flatMap(([name, member]) => {
      const at = `${path}/${escapeSegment(name)}`
      const fault = key(name)
      return fault === undefined ? shape(member, at) : [{ path: at, message: fault }]
    })
  }
}

/** An object with known members only; those named in `required` must be there. */
export function record(members: { readonly [key: string]: Shape }, required: readonly string[] = []): Shape {
  const known = Object.keys(members)
  return (value, path) => {
    if (!isObject(value)) return [{ path, message: 'must be an object' }]
    const missing = required.filter((key) => value[key] === undefined)
    return [
      ...unknownKeys(value, known, path, 'is not known here'),
      ...missing.map((key) => ({ path: `${path}/${key}`, message: 'is required' })),
      ...known.flatMap((key) => (value[key] === undefined ? [] : (members[key]?.(value[key], `${path}/${key}`) ?? []))),
    ]
  }
}
