import type { Issue, JsonSchema } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { isFunction } from '../json/plain.ts'

/**
 * Checks one value. `fits` decides without allocating; `issues` explains, with every failing path below `path`, and is
 * empty exactly when the value fits.
 */
export interface Check {
  fits(value: unknown): boolean
  issues(value: unknown, path: string): readonly Issue[]
  /** What a schema can say of such a value, for the schema that is published; `false` for a value that is not JSON. */
  readonly schema?: JsonSchema | undefined
}

/** The check of a member: a JSON Schema whose `description` completes "must be …", or a Check for a value that is not JSON. */
export type Member = JsonSchema | Check

type Described = { readonly [keyword: string]: unknown } & { readonly description: string }

/** Any string. */
export const anyText: Described = { type: 'string', description: 'a string' }
export const flag: Described = { type: 'boolean', description: 'true or false' }

/** A string; not empty unless `least` is 0. */
export function text(most?: number, least = 1): Described {
  const size = most === undefined ? '' : ` of ${least} to ${most} characters`
  const description = most === undefined && least === 1 ? 'a string that is not empty' : `a string${size}`
  return { type: 'string', minLength: least, ...(most === undefined ? {} : { maxLength: most }), description }
}

export const texts: Described = {
  type: 'array',
  items: text(),
  description: 'a list of strings that are not empty',
}

export function oneOf(...words: readonly string[]): Described {
  return { enum: words, description: words.length === 1 ? `"${words[0]}"` : `one of ${words.join(', ')}` }
}

/** A number within bounds, both included. */
export function number(least: number, most?: number): Described {
  return numeric('number', 'a number', least, most)
}

/** A whole number within bounds, both included. */
export function whole(least: number, most?: number): Described {
  return numeric('integer', 'a whole number', least, most)
}

function numeric(type: string, noun: string, least: number, most = Number.MAX_SAFE_INTEGER): Described {
  const range = most === Number.MAX_SAFE_INTEGER ? `of at least ${least}` : `from ${least} to ${most}`
  return { type, minimum: least, maximum: most, description: `${noun} ${range}` }
}

export const above0: Described = { type: 'number', exclusiveMinimum: 0, description: 'a number above 0' }

/**
 * A value whose rule a schema cannot express; `words` completes "must be …". `schema` is what one can say of it, and
 * `false` for a value that is not JSON.
 */
export function part(
  fits: (value: unknown) => boolean,
  words: string,
  schema: JsonSchema = { description: words },
): Check {
  return { schema, fits, issues: (value, path) => (fits(value) ? [] : [{ path, message: `must be ${words}` }]) }
}

/** A value that is not JSON. */
function live(fits: (value: unknown) => boolean, words: string): Check {
  return part(fits, words, false)
}

export const callback: Check = live(isFunction, 'a function')
export const anObject: Check = part(isObject, 'an object', { type: 'object', description: 'an object' })

/** An object that has these functions. */
export function having(...names: readonly string[]): Check {
  const fits = (value: unknown): boolean => isObject(value) && names.every((name) => isFunction(value[name]))
  return live(fits, `an object with the ${names.length === 1 ? 'function' : 'functions'} ${names.join(', ')}`)
}

/** A string with a custom rule: `fault` returns what is wrong with it. `words` describes it for a value that is not a string. */
export function ruled(fault: (value: string) => string | undefined, words = 'a string'): Check {
  return {
    schema: { type: 'string', description: words },
    fits: (value) => isText(value) && fault(value) === undefined,
    issues(value, path) {
      const message = isText(value) ? fault(value) : `must be ${words}`
      return message === undefined ? [] : [{ path, message }]
    },
  }
}

export function listOf(item: Check): Check {
  return {
    schema: item.schema === false ? false : { type: 'array', items: item.schema ?? true },
    fits: (value) => Array.isArray(value) && value.every((each) => item.fits(each)),
    issues: (value, path) =>
      Array.isArray(value)
        ? value.flatMap((each, index) => item.issues(each, `${path}/${index}`))
        : [{ path, message: 'must be a list' }],
  }
}

/** An object with arbitrary keys; `keyFault` returns what is wrong with a key. */
export function mapOf(member: Check, keyFault: (key: string) => string | undefined = () => undefined): Check {
  const issues = (value: unknown, path: string): readonly Issue[] => {
    if (!isObject(value)) return [{ path, message: 'must be an object' }]
    return Object.entries(value).flatMap(([key, each]) => {
      const at = `${path}/${escapeSegment(key.slice(0, 64))}`
      const fault = keyFault(key)
      return fault === undefined ? member.issues(each, at) : [{ path: at, message: fault }]
    })
  }
  const schema = member.schema === false ? false : { type: 'object', additionalProperties: member.schema ?? true }
  return { schema, fits: (value) => issues(value, '').length === 0, issues }
}

/** A value that passes one of several checks; the issues are those of the last. */
export function either(...checks: readonly Check[]): Check {
  const fits = (value: unknown): boolean => checks.some((check) => check.fits(value))
  const schemas = checks.map(({ schema = true }) => schema).filter((schema) => schema !== false)
  return {
    schema: schemas.length === 0 ? false : { anyOf: schemas },
    fits,
    issues: (value, path) => (fits(value) ? [] : (checks.at(-1)?.issues(value, path) ?? [])),
  }
}
