import type { SandboxCredential, SandboxFile, SandboxLimits } from './sandbox.ts'
import type { BackendBinding } from './tool.ts'

/** How an argument is written into a path, a query, a header or a cookie, as OpenAPI names the styles. */
export type ParameterStyle = 'simple' | 'label' | 'matrix' | 'form' | 'spaceDelimited' | 'pipeDelimited' | 'deepObject'

/** Where one argument goes. */
export interface HttpParameter {
  readonly in: 'path' | 'query' | 'header' | 'cookie'
  /** The name there; the argument's own when absent. */
  readonly name?: string
  /** `simple` for paths and headers, `form` for queries and cookies, unless another is named. */
  readonly style?: ParameterStyle
  /** True for `form` and false for the others, unless said. */
  readonly explode?: boolean
  /** Leaves reserved characters of a query value as they are. */
  readonly allowReserved?: boolean
  /** Writes the value as JSON text, whatever its type. */
  readonly json?: boolean
}

/** What becomes the body, and how it is written. */
export interface HttpBody {
  readonly type: 'json' | 'form' | 'multipart' | 'text' | 'binary'
  /** The argument that is the whole body; without one, every argument that goes nowhere else is a member of it. */
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
  /** For the built-in tools: the arguments themselves say what to run. */
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
