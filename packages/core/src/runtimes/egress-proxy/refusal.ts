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

/**
 * A whole response that says in one line why not. Messages of egress name what was asked for, never the address that
 * it leads to; of any other error nothing is told.
 */
export function refusal(error: unknown): string {
  const { code, message } = ToolError.is(error) ? error : new ToolError('INTERNAL', 'The proxy failed.')
  // A limit of the sandbox is neither the request's fault nor the server's.
  const status = code === 'LIMIT_EXCEEDED' ? 503 : codes[code].http
  const body = `${code}: ${message}`.replace(/[^ -~]+/g, ' ').slice(0, 1_000)
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? 'Failed'}`,
    'content-type: text/plain',
    `content-length: ${body.length + 1}`,
    'connection: close',
    '',
    `${body}\n`,
  ].join('\r\n')
}
