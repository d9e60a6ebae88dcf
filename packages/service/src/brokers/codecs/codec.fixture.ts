import assert from 'node:assert/strict'
import { codes, type ErrorCode, type Result, type ResultStatus } from '@gantry/contract'
import type { ReplyAddress } from '../../storage/calls/call-store.ts'
import type { Message } from '../transports/transport.ts'
import type { Decoded } from './codec.ts'

export const now = new Date('2030-01-31T12:00:00.250Z')
export const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
/** Text that some terminals show as line ends and colours. */
export const hostile = 'a\r\n\u001b[31mred\u2028b'

export function message(body: Uint8Array | string | object, about: Partial<Message> = {}): Message {
  const bytes = body instanceof Uint8Array ? body : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  return { bytes, headers: new Map(), source: 'topic', position: '0/42', ...about }
}

export function called(decoded: Decoded): Extract<Decoded, { kind: 'call' }> {
  assert.equal(decoded.kind, 'call', decoded.kind === 'invalid' ? decoded.error.message : '')
  return decoded as Extract<Decoded, { kind: 'call' }>
}

export function refused(decoded: Decoded): Extract<Decoded, { kind: 'invalid' }> {
  assert.equal(decoded.kind, 'invalid')
  return decoded as Extract<Decoded, { kind: 'invalid' }>
}

export function addressed(decoded: Decoded): ReplyAddress {
  return decoded.address ?? assert.fail('the message has no reply address')
}

export function result(more: Partial<Result> = {}): Result {
  return {
    callId: 'call_1',
    tool: { id: 'demo:echo', version: '1.0.0' },
    status: 'ok',
    output: { text: 'hi' },
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 12, enforced: {} },
    attempts: 1,
    startedAt: '2030-01-31T12:00:00.000Z',
    durationMs: 1_250,
    ...more,
  }
}

/** A result that ended with a code. */
export function failed(code: ErrorCode, text = 'It did not work.'): Result {
  const { stage, retryable, effect, status } = codes[code]
  const cause = { name: 'Error', message: 'internal-secret' }
  const error = { code, message: text, stage, retryable, effect, cause }
  return result({ status: status as ResultStatus, output: null, error })
}

export function json(bytes: Uint8Array): Record<string, unknown> {
  return JSON.parse(Buffer.from(bytes).toString())
}
