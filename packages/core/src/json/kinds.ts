import type { Json, JsonObject } from '@gantry/contract'

/** Whether a value is an object and no list. */
export function isObject(value: Json | undefined): value is JsonObject
export function isObject(value: unknown): value is { readonly [key: string]: unknown }
export function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function isText(value: unknown): value is string {
  return typeof value === 'string'
}

export function isFunction(value: unknown): value is (...args: never[]) => unknown {
  return typeof value === 'function'
}

/** Whether a value can be awaited. Only objects count, as in the answers of tools and backends. */
export function isPromiseLike(value: unknown): value is PromiseLike<unknown> {
  return typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'
}
