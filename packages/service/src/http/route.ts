import type { IncomingHttpHeaders } from 'node:http'
import type { ErrorCode, Identity, JsonObject, JsonSchema } from '@gantry/contract'
import type { Answer } from './answer.ts'
import type { HttpLimits } from './limits.ts'
import type { Service } from './service.ts'

/** A request, read and checked. */
export interface Asked {
  readonly params: { readonly [name: string]: string }
  readonly query: JsonObject
  /** Empty when there was none. */
  readonly body: JsonObject
  readonly headers: IncomingHttpHeaders
  /** Nobody's, where a route is open. */
  readonly identity: Identity
  /** Aborts when the client has gone. */
  readonly gone: AbortSignal
  /** Aborts when the client has gone or the server is about to close: whoever only waits stops waiting. */
  readonly stop: AbortSignal
  /** To be called, once, by a route whose answer may take long: takes a place among such requests, or throws RATE_LIMITED. */
  readonly hold: () => void
  readonly limits: HttpLimits
  /** Only this machine can reach the server. */
  readonly local: boolean
}

/** What an answer looks like, for the document. */
export interface AnswerDoc {
  readonly description: string
  /** JSON unless another media type is named. */
  readonly schema?: JsonSchema
  readonly type?: string
  readonly headers?: { readonly [name: string]: string }
}

/** What those hold who look after the service; `*` and `gantry:*` hold all of them. */
export type OperatorPermission = 'gantry:approve' | 'gantry:audit' | 'gantry:keys' | 'gantry:operate' | 'gantry:policy'

/** An object that the body of a request is. */
export interface BodyDoc {
  readonly members: { readonly [name: string]: JsonSchema }
  readonly required: readonly string[]
}

/**
 * One method of one path. The table of routes registers them and is the document, so that neither can say what the
 * other does not.
 */
export interface Route {
  /** The operation's name in the document. */
  readonly id: string
  readonly method: 'GET' | 'POST'
  /** With `:name` for parts that vary. */
  readonly path: string
  readonly tag: string
  readonly summary: string
  /** Who may ask: those with a key; everybody; or everybody as long as only this machine can reach us. */
  readonly access: 'key' | 'open' | 'local'
  /** What those with a key must hold besides, where a route is not for every caller. */
  readonly permission?: OperatorPermission
  readonly query?: { readonly [name: string]: JsonSchema }
  /** Headers that the route reads. */
  readonly headers?: { readonly [name: string]: string }
  readonly body?: BodyDoc
  readonly answers: { readonly [status: number]: AnswerDoc }
  /** What it refuses, besides what every route does. */
  readonly errors?: readonly ErrorCode[]
  handle(asked: Asked, service: Service): Answer | Promise<Answer>
}

/** The methods that a route takes; a stream of events has no length that a HEAD could tell. */
export function methodsOf({ method, path }: Pick<Route, 'method' | 'path'>): ('GET' | 'HEAD' | 'POST')[] {
  return method === 'GET' && !path.endsWith('/events') ? ['GET', 'HEAD'] : [method]
}
