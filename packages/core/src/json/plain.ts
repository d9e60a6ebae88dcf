import type { Json, JsonObject } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'

export function isFunction(value: unknown): value is (...args: never[]) => unknown {
  return typeof value === 'function'
}

/** Whether a value can be awaited. A function with a `then` does not count. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && 'then' in value && typeof value.then === 'function'
}

/** Limits for one JSON value. */
export interface JsonLimits {
  /** Approximate bytes of its JSON text in UTF-8: punctuation counts as one byte per member. */
  readonly bytes: number
  readonly depth: number
  /** Total number of members and elements. */
  readonly nodes: number
}

export const defaultJsonLimits: JsonLimits = { bytes: 1_048_576, depth: 64, nodes: 100_000 }

/** Why a value is not acceptable JSON. */
export type JsonFault = 'not-json' | 'too-deep' | 'too-large' | 'forbidden-key'

/** Thrown inside `json/` only; callers turn it into the ToolError of their stage. */
export class JsonError extends Error {
  override readonly name = 'JsonError'
  readonly fault: JsonFault
  /** JSON Pointer to the failing value. */
  readonly path: string

  constructor(fault: JsonFault, path: string, message: string, options?: ErrorOptions) {
    super(message, options)
    this.fault = fault
    this.path = path
  }
}

export interface CopyOptions {
  readonly limits?: JsonLimits
  /** Converts values with `toJSON` (`Date`, `URL`) as `JSON.stringify` does, because tools return them. */
  readonly convert?: boolean
  /** Freezes the copy deeply. */
  readonly freeze?: boolean
  /** Drops `__proto__` keys and counts them here; without it such a key is refused. */
  readonly dropped?: { count: number }
}

interface Budget {
  bytes: number
  nodes: number
  readonly limits: JsonLimits
  readonly options: CopyOptions
}

/**
 * A plain deep copy of a JSON value. Every foreign value enters through it.
 * Each property is read once, so getters and proxies cannot return another value later and do not survive in the copy.
 * Throws JsonError with the path of the first value that is not JSON or is over a limit.
 */
export function copyJson(value: unknown, options: CopyOptions = noOptions): Json {
  const limits = options.limits ?? defaultJsonLimits
  return copy(value, 0, { bytes: limits.bytes, nodes: limits.nodes, limits, options })
}

const noOptions: CopyOptions = {}
const hasOwn = Object.prototype.hasOwnProperty

function copy(value: unknown, depth: number, budget: Budget): Json {
  if (typeof value === 'string') {
    spend(budget, utf8Length(value) + 2)
    return value
  }
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new JsonError('not-json', '', `is ${value}, which JSON cannot hold`)
    spend(budget, 8)
    return value
  }
  if (typeof value === 'boolean' || value === null) {
    spend(budget, 4)
    return value
  }
  if (typeof value === 'object') return copyObject(value, depth, budget)
  throw new JsonError('not-json', '', `is ${describe(value)}, not JSON`)
}

function copyObject(value: object, depth: number, budget: Budget): Json {
  if (depth >= budget.limits.depth) {
    const message = `is nested deeper than ${budget.limits.depth} levels, or contains itself`
    throw new JsonError('too-deep', '', message)
  }
  try {
    if (Array.isArray(value)) return copyArray(value, depth, budget)
    const prototype: unknown = Object.getPrototypeOf(value)
    if (prototype !== Object.prototype && prototype !== null) {
      const converted = convert(value, depth, budget)
      if (converted !== undefined) return converted
    }
    return copyMembers(value as Record<string, unknown>, depth, budget)
  } catch (error) {
    if (error instanceof JsonError) throw error
    throw new JsonError('not-json', '', 'could not be read', { cause: error })
  }
}

function copyArray(value: readonly unknown[], depth: number, budget: Budget): Json[] {
  const length = Math.max(0, Number(value.length))
  spend(budget, 2, length)
  const target: Json[] = []
  let index = 0
  try {
    for (; index < length; index++) {
      const item = value[index]
      target.push(item === undefined ? null : copy(item, depth + 1, budget))
    }
  } catch (error) {
    throw below(error, index)
  }
  return budget.options.freeze ? (Object.freeze(target) as Json[]) : target
}

function copyMembers(value: Record<string, unknown>, depth: number, budget: Budget): Json {
  if (budget.options.freeze) return Object.freeze(replaceMembers(takeMembers(value), depth, budget))
  const target: { [key: string]: Json } = {}
  let at = ''
  try {
    spend(budget, 2)
    // `for … in` allocates no list of keys.
    for (const key in value) {
      at = key
      if (!hasOwn.call(value, key)) continue
      spend(budget, utf8Length(key) + 4, 1)
      const member = key === '__proto__' ? dropOrRefuse(budget) : value[key]
      if (member !== undefined) target[key] = copy(member, depth + 1, budget)
    }
  } catch (error) {
    throw below(error, at)
  }
  return target
}

/**
 * The own members with string keys, each read once, in an object of the same shape. For tool definitions this costs half
 * as much as setting the members one by one.
 */
function takeMembers(value: Record<string, unknown>): Record<string, unknown> {
  let target: Record<string | symbol, unknown>
  try {
    target = { ...value }
  } catch {
    return takeOneByOne(value)
  }
  const symbols = Object.getOwnPropertySymbols(target)
  if (symbols.length > 0) for (const symbol of symbols) delete target[symbol]
  return target
}

/** Reads the members one by one, to find the one that throws. */
function takeOneByOne(value: Record<string, unknown>): Record<string, unknown> {
  const target: Record<string, unknown> = {}
  for (const key of Object.keys(value)) {
    try {
      Object.defineProperty(target, key, { value: value[key], enumerable: true, writable: true, configurable: true })
    } catch (error) {
      throw below(error, key)
    }
  }
  return target
}

/** Replaces members that are objects by copies, and checks the others. */
function replaceMembers(target: Record<string, unknown>, depth: number, budget: Budget): JsonObject {
  let at = ''
  try {
    spend(budget, 2)
    for (const key of Object.keys(target)) {
      at = key
      spend(budget, utf8Length(key) + 4, 1)
      const member = key === '__proto__' ? dropOrRefuse(budget) : target[key]
      if (member === undefined) delete target[key]
      else if (typeof member === 'object' && member !== null) target[key] = copyObject(member, depth + 1, budget)
      else copy(member, depth + 1, budget)
    }
  } catch (error) {
    throw below(error, at)
  }
  return target as JsonObject
}

/** Prepends the key to the path of an error on the way up, so that a copy without errors tracks no path. */
function below(error: unknown, key: string | number): JsonError {
  const fault =
    error instanceof JsonError ? error : new JsonError('not-json', '', 'could not be read', { cause: error })
  const segment = typeof key === 'number' ? String(key) : escapeSegment(key)
  return new JsonError(fault.fault, `/${segment}${fault.path}`, fault.message, { cause: fault.cause })
}

function dropOrRefuse(budget: Budget): undefined {
  if (budget.options.dropped === undefined) throw new JsonError('forbidden-key', '', 'is a key that is not allowed')
  budget.options.dropped.count += 1
}

/** Calls `toJSON` where allowed. An object of another realm counts as plain when its prototype has no parent. */
function convert(value: object, depth: number, budget: Budget): Json | undefined {
  const toJson: unknown = 'toJSON' in value ? value.toJSON : undefined
  if (typeof toJson === 'function') {
    if (!budget.options.convert) throw new JsonError('not-json', '', `is ${describe(value)}, not plain JSON`)
    const converted: unknown = toJson.call(value, '')
    if (converted !== value) return copy(converted ?? null, depth + 1, budget)
  }
  if (Object.getPrototypeOf(Object.getPrototypeOf(value)) === null) return undefined
  throw new JsonError('not-json', '', `is ${describe(value)}, not plain JSON`)
}

function spend(budget: Budget, bytes: number, nodes = 0): void {
  budget.bytes -= bytes
  budget.nodes -= nodes
  if (budget.bytes >= 0 && budget.nodes >= 0) return
  const { limits } = budget
  const limit = budget.bytes < 0 ? `${limits.bytes} bytes` : `${limits.nodes} members`
  throw new JsonError('too-large', '', `takes the value over ${limit}`)
}

/** A short, safe name for a value's kind. */
function describe(value: unknown): string {
  if (typeof value !== 'object' || value === null) return `a ${typeof value}`
  const name: unknown = Object.getPrototypeOf(value)?.constructor?.name
  return typeof name === 'string' && /^\w{1,40}$/.test(name) ? `a ${name}` : 'an object with a prototype'
}

/** Length of a string in UTF-8. */
export function utf8Length(text: string): number {
  if (text.length > 64) return Buffer.byteLength(text)
  let bytes = text.length
  for (let index = 0; index < text.length; index++) {
    const unit = text.charCodeAt(index)
    if (unit > 0x7f) bytes += unit > 0x7ff && (unit < 0xd800 || unit > 0xdfff) ? 2 : 1
  }
  return bytes
}
