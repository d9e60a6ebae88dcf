/** A value that survives JSON text unchanged: the only kind that crosses a tool boundary. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** A JSON object. */
export type JsonObject = { [key: string]: Json }

/** A JSON Schema (2020-12, or draft-07 when its `$schema` says so). */
export type JsonSchema = boolean | { readonly [keyword: string]: unknown }
