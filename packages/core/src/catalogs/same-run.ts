import type { Tool } from '@gantry/contract'

/** Tells whether two definitions with one digest also run the same way; functions are compared by identity. */
export function sameRun(a: Tool, b: Tool): boolean {
  return same(a, b)
}

function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b) || !isPlain(a) || !isPlain(b)) return false
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  return keys.every((key) => Object.hasOwn(b, key) && same(member(a, key), member(b, key)))
}

/** Client objects that ride in a binding are the same only when they are one object. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null
}

function member(value: object, key: string): unknown {
  return (value as Record<string, unknown>)[key]
}
