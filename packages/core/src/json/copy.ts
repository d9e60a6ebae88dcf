import type { Json, JsonObject } from '@gantry/contract'
import { escapeSegment } from '@gantry/json-schema/internal/pointer'
import { defaultJsonLimits, JsonError, type JsonLimits, utf8Length } from './limits.ts'

export interface CopyOptions {
  readonly limits?: JsonLimits
  /** Accepts what `JSON.stringify` would convert (`Date`, `URL`, anything with `toJSON`), as tools return such values. */
  readonly convert?: boolean
  /** Freezes the copy, all of it. */
  readonly freeze?: boolean
  /** Leaves `__proto__` keys out and counts them here; without it such a key is refused. */
  readonly dropped?: { count: number }
}

interface Budget {
  bytes: number
  nodes: number
  readonly limits: JsonLimits
  readonly options: CopyOptions
}

/**
 * A fresh, plain copy of a JSON value: the one gate through which foreign values enter.
 * Each property is read once, so getters and proxies cannot answer differently later, and nothing of theirs survives.
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
    // A list of the keys would be one more object for each that is copied.
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
 * The own members with text for a key, each read once, in an object of the same shape; for a definition, whose members
 * have names of their own, that costs half as much as setting them one by one.
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

/** Finds out which member it is that throws when it is read. */
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

/** Puts copies in the place of members that are objects, and checks the others. */
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

/** Puts the key that led to a fault before its path, on the way up; a copy that succeeds keeps no path at all. */
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

/** Follows `toJSON` where allowed; objects of a foreign realm count as plain when their prototype has no parent. */
function convert(value: object, depth: number, budget: Budget): Json | undefined {
  const toJson = (value as { toJSON?: unknown }).toJSON
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
