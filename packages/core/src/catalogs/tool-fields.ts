import { type Issue, type Json, ToolError } from '@gantry/contract'
import { copyJson } from '../json/copy.ts'
import { isObject } from '../json/kinds.ts'
import { JsonError } from '../json/limits.ts'
import { didYouMean } from '../search/index.ts'

/** Collects what is wrong with one definition, up to a number that a person can read. */
export class Issues {
  readonly list: Issue[] = []

  add(path: string, message: string): undefined {
    if (this.list.length < 100) this.list.push({ path, message })
    return undefined
  }
}

/** Checks one field and gives the frozen value to keep; reports and gives undefined when it is wrong. */
export type Field = (value: unknown, path: string, issues: Issues) => unknown

/** A string of bounded length that is more than white space. */
export function text(limit: number): Field {
  return (value, path, issues) => {
    if (typeof value !== 'string') return issues.add(path, 'must be a string')
    if (value.length > limit) return issues.add(path, `must not be longer than ${limit} characters`)
    return value.trim() === '' ? issues.add(path, 'must not be empty') : value
  }
}

/** A string that a rule of its own accepts; the rule returns what is wrong. */
export function ruled(fault: (value: string) => string | undefined): Field {
  return (value, path, issues) => {
    if (typeof value !== 'string') return issues.add(path, 'must be a string')
    const wrong = fault(value)
    return wrong === undefined ? value : issues.add(path, wrong)
  }
}

/** One of a few words. */
export function oneOf(...words: readonly string[]): Field {
  return (value, path, issues) =>
    words.some((word) => word === value) ? value : issues.add(path, `must be one of ${words.join(', ')}`)
}

/** A whole number within bounds. */
export function integer(least: number, most = Number.MAX_SAFE_INTEGER): Field {
  return (value, path, issues) =>
    Number.isSafeInteger(value) && Number(value) >= least && Number(value) <= most
      ? value
      : issues.add(
          path,
          `must be a whole number of at least ${least}${most < 2 ** 53 - 1 ? ` and at most ${most}` : ''}`,
        )
}

export function flag(value: unknown, path: string, issues: Issues): unknown {
  return typeof value === 'boolean' ? value : issues.add(path, 'must be true or false')
}

/** A list of bounded length whose elements all fit one field. */
export function list(field: Field, limit: number, least = 0): Field {
  return (value, path, issues) => {
    if (!Array.isArray(value)) return issues.add(path, 'must be a list')
    if (value.length < least) return issues.add(path, `must have at least ${least} element`)
    if (value.length > limit) return issues.add(path, `must not have more than ${limit} elements`)
    return Object.freeze(value.map((item, index) => field(item, `${path}/${index}`, issues)))
  }
}

/** An object with known members only; those named in `required` must be there. */
export function record(members: { readonly [key: string]: Field }, required: readonly string[] = []): Field {
  const known = new Map(Object.entries(members))
  return (value, path, issues) => {
    if (!isObject(value)) return issues.add(path, 'must be an object')
    const copy: Record<string, unknown> = {}
    for (const key of Object.keys(value)) {
      const member = value[key]
      const field = known.get(key)
      if (member === undefined) continue
      if (field !== undefined) copy[key] = field(member, `${path}/${key}`, issues)
      else issues.add(`${path}/${key.slice(0, 64)}`, `is not a known property${didYouMean(key, known.keys())}`)
    }
    for (const key of required) if (value[key] === undefined) issues.add(`${path}/${key}`, 'is required')
    return Object.freeze(copy)
  }
}

const frozen = { freeze: true }

/** Any JSON value, copied so that nothing of the caller's stays inside. */
export function json(value: unknown, path: string, issues: Issues): Json | undefined {
  try {
    return copyJson(value, frozen)
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
    return issues.add(`${path}${error.path}`, error.message)
  }
}

/** A JSON object. */
/** An object of texts under any names; a plain copy of it. */
export function texts(value: unknown, path: string, issues: Issues): unknown {
  if (!isObject(value)) return issues.add(path, 'must be an object')
  const wrong = Object.keys(value).find((name) => typeof value[name] !== 'string')
  if (wrong !== undefined) return issues.add(`${path}/${wrong.slice(0, 64)}`, 'must be a string')
  return json(value, path, issues)
}

export function jsonObject(value: unknown, path: string, issues: Issues): Json | undefined {
  return isObject(value) ? json(value, path, issues) : issues.add(path, 'must be an object')
}

/** Enough for a person; a toolset of thousands of wrong patterns would otherwise be thousands of sentences. */
const maxIssues = 100

/** The error for a question that is wrong at the given paths. */
export function inputFault(question: string, issues: readonly Issue[]): ToolError {
  const [first] = issues
  const more = issues.length > 1 ? ` (and ${issues.length - 1} more)` : ''
  const reason = first === undefined ? 'it is invalid' : `${first.path} ${first.message}`
  const details = { issues: issues.slice(0, maxIssues) }
  return new ToolError('INPUT_INVALID', `The ${question} is wrong: ${reason}${more}.`, { details })
}
