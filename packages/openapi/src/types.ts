import type { EffectClass, HttpAuth, Tool } from '@gantry/contract'

/** What to take from a document, and under which names. */
export interface OpenapiOptions {
  /** Namespace of the tools, and name of the backend that they go through. */
  readonly name: string
  /** Where the API is, instead of what `servers` says. */
  readonly baseUrl?: string
  /** Further origins whose operations are kept; an operation with servers of its own elsewhere is left out. */
  readonly origins?: readonly string[]
  /** Where the document came from; a relative server URL is read from there. */
  readonly location?: string
  /** Only operations with one of these tags. */
  readonly tags?: readonly string[]
  /** Only operations whose tool name is one of these; `*` at the end stands for any rest. */
  readonly operations?: readonly string[]
  /** Version of the tools; by default that of the document, or 1.0.0 when it is no semantic version. */
  readonly version?: string
  /** Effect classes by method in capitals, or by name as in `operations`; of several that fit, the last counts. */
  readonly effects?: { readonly [methodOrName: string]: EffectClass }
  /** Documents with more operations are refused; 10,000 by default. */
  readonly maxOperations?: number
}

/** The one backend that all tools of a document share, as the options of an HTTP backend. */
export interface OpenapiBackend {
  readonly kind: 'http'
  readonly name: string
  readonly baseUrl: string
  readonly origins?: readonly string[]
  readonly auth?: HttpAuth | readonly HttpAuth[]
}

/** Something that was changed or ignored on the way. */
export interface OpenapiWarning {
  /** `GET /pets`, when it is about one operation. */
  readonly operation?: string
  /** JSON Pointer into the document. */
  readonly path: string
  readonly message: string
}

/** A secret that calls will ask for. */
export interface OpenapiSecret {
  readonly name: string
  /** What it is, in words. */
  readonly what: string
}

export interface OpenapiReport {
  readonly imported: number
  /** Operations that `tags` or `operations` did not choose. */
  readonly notChosen: number
  readonly leftOut: readonly { readonly operation: string; readonly reason: string }[]
  readonly warnings: readonly OpenapiWarning[]
  readonly secrets: readonly OpenapiSecret[]
  /** Parts of OpenAPI that have no tool: how many there were. */
  readonly notImported: { readonly callbacks: number; readonly webhooks: number; readonly links: number }
}

export interface OpenapiImport {
  readonly name: string
  readonly baseUrl: string
  readonly tools: readonly Tool[]
  readonly backend: OpenapiBackend
  readonly report: OpenapiReport
}
