/** A value that survives JSON text unchanged: the only kind that crosses a tool boundary. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** A JSON object. */
export type JsonObject = { [key: string]: Json }

/** A JSON Schema (2020-12, or draft-07 when its `$schema` says so). */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown }

/** Whether a value is an object and not a list. */
export function isObject(value: Json | undefined): value is JsonObject
export function isObject(value: unknown): value is { readonly [key: string]: unknown }
export function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a value is an object or a list. */
export function isComposite(value: Json | undefined): value is JsonObject | Json[]
export function isComposite(value: unknown): value is { readonly [key: string]: unknown }
export function isComposite(value: unknown): boolean {
  return typeof value === 'object' && value !== null
}

export function isText(value: unknown): value is string {
  return typeof value === 'string'
}
