import type { Json, JsonObject, JsonSchema } from './json.ts'
import type { SandboxCredential, SandboxFile, SandboxLimits } from './sandbox.ts'

/**
 * What may happen to a call whose worker died.
 * `read`: run again. `keyed`: run again with the same downstream key. `reconcilable`: ask `lookup(key)` first.
 * `once`: never again, the outcome is unknown. `repeatable`: the caller accepts repeats.
 */
export type EffectClass = 'read' | 'keyed' | 'reconcilable' | 'once' | 'repeatable'

/** Hints of an MCP tool about itself: shown, never trusted. */
export interface ToolAnnotations {
  readonly title?: string
  readonly readOnlyHint?: boolean
  readonly destructiveHint?: boolean
  readonly idempotentHint?: boolean
  readonly openWorldHint?: boolean
}

export interface ToolIcon {
  readonly src: string
  readonly mimeType?: string
  readonly sizes?: readonly string[]
}

/** One worked use of a tool. */
export interface ToolExample {
  readonly title: string
  readonly description?: string
  readonly args: JsonObject
  readonly output?: Json
}

/** How a call reaches the tool: a backend's kind, its name when there are several, and what that backend needs. */
export interface BackendBinding {
  readonly kind: string
  readonly name?: string
  readonly [option: string]: unknown
}

/** Limits of one call; the executor's default when absent. */
export interface CallLimits {
  readonly argsBytes?: number
  readonly argsDepth?: number
  readonly resultBytes?: number
  readonly resultDepth?: number
}

/** When a failed attempt is tried again; the effect class decides whether it may be. */
export interface RetryRule {
  /** Attempts in all, the first included. */
  readonly attempts: number
  readonly delayMs?: number
  readonly maxDelayMs?: number
}

/** `fail`: CIRCUIT_OPEN at once, with the time after which to try again. `wait`: until the circuit lets the call through. */
export type OnCircuitOpen = 'fail' | 'wait'

export interface Deprecation {
  readonly message: string
  /** Id of the tool to use instead. */
  readonly replacement?: string
}

/** A tool as the catalog holds it: an MCP tool, where it lives and how it may run. All of it is JSON. */
export interface Tool {
  readonly namespace: string
  readonly name: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly annotations?: ToolAnnotations
  readonly icons?: readonly ToolIcon[]
  readonly tags?: readonly string[]
  /** Longer notes in Markdown, for the `full` documentation level. */
  readonly docs?: string
  readonly examples?: readonly ToolExample[]
  readonly deprecated?: Deprecation
  /** Other ids (`namespace:name`) that find this tool. */
  readonly aliases?: readonly string[]
  readonly backends: readonly BackendBinding[]
  readonly effect: EffectClass
  /** `strict` makes output that does not fit the schema a failure; `warn`, the default, keeps it with a warning. */
  readonly output?: 'warn' | 'strict'
  readonly timeoutMs?: number
  readonly limits?: CallLimits
  readonly permissions?: readonly string[]
  readonly secrets?: readonly string[]
  readonly egress?: readonly string[]
  readonly profile?: string
  readonly runtime?: string
  /** Calls with the same key do not run more than `concurrency` at a time; the tool id is the default key. */
  readonly concurrencyKey?: string
  readonly concurrency?: number
  readonly retry?: RetryRule
  /** False for a tool whose failures open no circuit. */
  readonly breaker?: boolean
  /** What becomes of a call while its circuit is open: it fails at once, the default, or waits within its time. */
  readonly onCircuitOpen?: OnCircuitOpen
  readonly approval?: 'never' | 'always'
  readonly placement?: { readonly [label: string]: string }
  /**
   * `false`: a gateway that waits for this tool waits until it has ended, however long that takes. Else it may get an
   * interim answer with the id of a background task, and the result later.
   */
  readonly background?: boolean
  /** Units that a call consumes of the budgets of its tenant and its caller; none when absent. */
  readonly cost?: number
  /** For a `read` tool: how long its results may be cached, for the same caller or for every caller of the tenant. */
  readonly cache?: { readonly ttlMs: number; readonly scope?: 'principal' | 'tenant' }
}

/** How an argument is written into a path, a query, a header or a cookie, as OpenAPI names the styles. */
export type ParameterStyle = 'simple' | 'label' | 'matrix' | 'form' | 'spaceDelimited' | 'pipeDelimited' | 'deepObject'

/** The location of one argument in the request. */
export interface HttpParameter {
  readonly in: 'path' | 'query' | 'header' | 'cookie'
  /** The name there; the argument's own when absent. */
  readonly name?: string
  /** `simple` for paths and headers, `form` for queries and cookies, unless another is named. */
  readonly style?: ParameterStyle
  /** True for `form` and false for other styles when absent. */
  readonly explode?: boolean
  /** Leaves reserved characters of a query value as they are. */
  readonly allowReserved?: boolean
  /** Writes the value as JSON text, whatever its type. */
  readonly json?: boolean
}

/** The arguments and format of the body. */
export interface HttpBody {
  readonly type: 'json' | 'form' | 'multipart' | 'text' | 'binary'
  /** The argument that is the whole body; when absent, every argument without a location is a member of the body. */
  readonly arg?: string
  /** The media type to send; the usual one of the type when absent. */
  readonly mediaType?: string
  /** Members of a multipart body that are files; their text is base64. */
  readonly files?: readonly string[]
  /** How members of a form are written; where nothing is said, lists repeat their name and objects are JSON text. */
  readonly encoding?: { readonly [member: string]: { readonly style?: ParameterStyle; readonly explode?: boolean } }
}

/** How a request proves who sends it. Every value may be, or hold, a reference `secret:name`. */
export type HttpAuth =
  | { readonly type: 'bearer'; readonly token: string }
  | { readonly type: 'basic'; readonly username: string; readonly password: string }
  | { readonly type: 'header' | 'query' | 'cookie'; readonly name: string; readonly value: string }

/** How a tool is one request to an HTTP backend. Arguments that nothing places go into the query of GET, HEAD and DELETE, and into the body of the rest. */
export interface HttpBinding extends BackendBinding {
  readonly kind: 'http'
  readonly method?: string
  /** Below the backend's base URL, with `{argument}` for parts that come from arguments. */
  readonly path: string
  /** Instead of the backend's base URL; its origin is the backend's, or one of the backend's `origins`. */
  readonly baseUrl?: string
  readonly params?: { readonly [argument: string]: HttpParameter }
  readonly body?: HttpBody
  /** Sent with every call, as written; `secret:name` is put in at the last moment. */
  readonly headers?: { readonly [name: string]: string }
  readonly query?: { readonly [name: string]: string }
  /** Instead of the backend's own; an empty list sends none. */
  readonly auth?: HttpAuth | readonly HttpAuth[]
  /** `auto`, the default, goes by the media type of the answer. */
  readonly response?: 'auto' | 'json' | 'text' | 'base64' | 'sse' | 'ndjson' | 'chunks'
  /** The header that carries the idempotency key; `Idempotency-Key` when absent, none when false. */
  readonly idempotencyHeader?: string | false
}

/** How a tool is one method of a gRPC backend. */
export interface GrpcBinding extends BackendBinding {
  readonly kind: 'grpc'
  /** `package.Service/Method`. */
  readonly method: string
  /** Sent with every call; `secret:name` is put in at the last moment. */
  readonly metadata?: { readonly [name: string]: string }
}

/**
 * How a tool is a program in a sandbox. Its arguments come as one JSON text on stdin, never in a command line; `profile`,
 * `runtime` and `egress` of the tool say where it runs and what it reaches.
 */
export interface SandboxedBinding extends BackendBinding {
  readonly kind: 'sandboxed'
  /** The program: a command, a script for a POSIX shell, or code in a language. */
  readonly command?: readonly [string, ...string[]]
  readonly script?: string
  readonly code?: string
  /** Of `code`. */
  readonly language?: string
  /** For the built-in tools: the arguments contain the program. */
  readonly takes?: 'code' | 'shell'
  /** Put into the workspace of every run. */
  readonly files?: { readonly [path: string]: SandboxFile }
  readonly env?: { readonly [name: string]: string }
  /**
   * Secrets that the program uses without having them, by the variable of its environment that holds a placeholder. For
   * the built-in tools: those that a call may name.
   */
  readonly credentials?: { readonly [variable: string]: SandboxCredential }
  readonly limits?: Partial<SandboxLimits>
  /**
   * What becomes the output: `auto`, the default, is the value on descriptor 3, else stdout read as JSON where it is
   * JSON, else its text.
   */
  readonly output?: 'auto' | 'json' | 'text'
}
