import type { IncomingHttpHeaders } from 'node:http'
import type { ErrorCode, Identity, JsonObject, JsonSchema } from '@gantry/contract'
import type { Answer } from './answer.ts'
import type { HttpLimits } from './limits.ts'
import type { Service } from './service.ts'

/** A request, parsed and checked. */
export interface ParsedRequest {
  readonly params: { readonly [name: string]: string }
  readonly query: JsonObject
  /** Empty when there was none. */
  readonly body: JsonObject
  readonly headers: IncomingHttpHeaders
  /** Without permissions on an open route. */
  readonly identity: Identity
  /** Aborts when the client has disconnected. */
  readonly gone: AbortSignal
  /** Aborts when the client has disconnected or the server closes; ends waiting and streaming. */
  readonly stop: AbortSignal
  /**
   * Must be called once by a route whose response may take long: takes a slot among such requests, or throws
   * RATE_LIMITED.
   */
  readonly hold: () => void
  readonly limits: HttpLimits
  /** Whether the server listens on loopback only. */
  readonly local: boolean
}

/** Members of a request, as the schemas of its route describe them; they were checked before the route's handler. */
export function checked<Value>(members: JsonObject): Value {
  return members as Value
}

/** The description of a response, for the document. */
export interface AnswerDoc {
  readonly description: string
  /** JSON unless another media type is named. */
  readonly schema?: JsonSchema
  readonly type?: string
  readonly headers?: { readonly [name: string]: string }
}

/** The permissions of operators; `*` and `gantry:*` include all of them. */
export type OperatorPermission = 'gantry:approve' | 'gantry:audit' | 'gantry:keys' | 'gantry:operate' | 'gantry:policy'

/** The object that a request's body is. */
export interface BodyDoc {
  readonly members: { readonly [name: string]: JsonSchema }
  readonly required: readonly string[]
}

/**
 * One method of one path. The table of routes both registers them and makes the OpenAPI document, so that the two
 * cannot differ.
 */
export interface Route {
  /** The operation's name in the document. */
  readonly id: string
  readonly method: 'GET' | 'POST'
  /** With `:name` for parameters. */
  readonly path: string
  readonly tag: string
  readonly summary: string
  /** The clients that may send requests: callers with a key; all clients; or all clients while the server listens on loopback only. */
  readonly access: 'key' | 'open' | 'local'
  /** The permission that callers with a key must hold, where a route is not for every caller. */
  readonly permission?: OperatorPermission
  readonly query?: { readonly [name: string]: JsonSchema }
  /** Headers that the route reads. */
  readonly headers?: { readonly [name: string]: string }
  readonly body?: BodyDoc
  readonly answers: { readonly [status: number]: AnswerDoc }
  /** The errors of the route, in addition to those of every route. */
  readonly errors?: readonly ErrorCode[]
  handle(request: ParsedRequest, service: Service): Answer | Promise<Answer>
}

/** The methods of a route; an event stream has no length that HEAD could return. */
export function methodsOf({ method, path }: Pick<Route, 'method' | 'path'>): ('GET' | 'HEAD' | 'POST')[] {
  return method === 'GET' && !path.endsWith('/events') ? ['GET', 'HEAD'] : [method]
}
