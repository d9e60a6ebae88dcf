import { STATUS_CODES } from 'node:http'
import { codes, ToolError } from '@gantry/contract'

/** A request that is not one, or not one for a proxy. */
export function badRequest(message: string): ToolError {
  return new ToolError('INPUT_INVALID', message, { stage: 'execute' })
}

/** A request that names two hosts, of which one would be checked and the other one asked. */
export function otherHost(): ToolError {
  return badRequest('The Host header names another host than the request.')
}

/** Why not, as it is told: a status and one line. */
export interface Refused {
  readonly status: number
  readonly body: string
}

/**
 * What is told of an error. Messages of egress name what was asked for, never the address that it leads to; of any other
 * error nothing is told.
 */
export function refused(error: unknown): Refused {
  const { code, message } = ToolError.is(error) ? error : new ToolError('INTERNAL', 'The proxy failed.')
  // A limit of the sandbox is neither the request's fault nor the server's.
  const status = code === 'LIMIT_EXCEEDED' ? 503 : codes[code].http
  return { status, body: `${`${code}: ${message}`.replace(/[^ -~]+/g, ' ').slice(0, 1_000)}\n` }
}

/** The same as a whole response. */
export function refusal(error: unknown): string {
  const { status, body } = refused(error)
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Failed'}`,
    'content-type: text/plain',
    `content-length: ${body.length}`,
    'connection: close',
    '',
    body,
  ].join('\r\n')
}
