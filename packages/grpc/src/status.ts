import { type ErrorCode, ToolError } from '@gantry/contract'
import { fieldsOf, readParts } from './wire.ts'

/** How a call ended, as the server said or as the broken connection means. */
export interface GrpcStatus {
  readonly code: number
  readonly message: string
  /** `google.rpc.Status`, when the server sent one. */
  readonly details?: Buffer
  /** Set when the server certainly did not begin: the call never left, or was refused by HTTP/2 itself. */
  readonly unsent?: boolean
}

interface Row {
  readonly name: string
  readonly code: ErrorCode
  readonly retryable?: boolean
}

/** What each status means here. Only a refusal by HTTP/2 proves that nothing ran; a server's word does not. */
export const statusTable: readonly Row[] = [
  { name: 'OK', code: 'BACKEND_FAILED' },
  { name: 'CANCELLED', code: 'BACKEND_FAILED' },
  { name: 'UNKNOWN', code: 'BACKEND_FAILED' },
  { name: 'INVALID_ARGUMENT', code: 'BACKEND_FAILED' },
  { name: 'DEADLINE_EXCEEDED', code: 'BACKEND_FAILED', retryable: true },
  { name: 'NOT_FOUND', code: 'BACKEND_FAILED' },
  { name: 'ALREADY_EXISTS', code: 'BACKEND_FAILED' },
  { name: 'PERMISSION_DENIED', code: 'DENIED' },
  { name: 'RESOURCE_EXHAUSTED', code: 'RATE_LIMITED' },
  { name: 'FAILED_PRECONDITION', code: 'BACKEND_FAILED' },
  { name: 'ABORTED', code: 'BACKEND_FAILED', retryable: true },
  { name: 'OUT_OF_RANGE', code: 'BACKEND_FAILED' },
  { name: 'UNIMPLEMENTED', code: 'BACKEND_FAILED' },
  { name: 'INTERNAL', code: 'BACKEND_FAILED' },
  { name: 'UNAVAILABLE', code: 'BACKEND_FAILED', retryable: true },
  { name: 'DATA_LOSS', code: 'BACKEND_FAILED' },
  { name: 'UNAUTHENTICATED', code: 'DENIED' },
]
const unknown: Row = { name: 'UNKNOWN', code: 'BACKEND_FAILED' }
const retryInfo = 'google.rpc.RetryInfo'
const longestWaitMs = 86_400_000

/** The error for a status that is not OK; the message is the server's own. */
export function statusError(status: GrpcStatus, cause?: unknown): ToolError {
  const { name, code, retryable } = statusTable[status.code] ?? unknown
  const message = status.message === '' ? `The server answered ${name}.` : status.message
  const retryAfterMs = status.details === undefined ? undefined : retryDelay(status.details)
  const details = { grpc: { status: status.code, name }, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
  const facts = { details, ...(cause === undefined ? {} : { cause }) }
  if (status.unsent === true) return new ToolError('BACKEND_UNAVAILABLE', message, facts)
  return new ToolError(code, message, {
    ...facts,
    effect: code === 'DENIED' ? 'none' : 'possible',
    ...(retryable === undefined ? {} : { retryable }),
  })
}

/** Whether an error is this status of a server. */
export function isStatus(error: unknown, name: string): boolean {
  if (!ToolError.is(error)) return false
  const grpc: unknown = error.details?.grpc
  return typeof grpc === 'object' && grpc !== null && (grpc as { name?: unknown }).name === name
}

/** The wait that `google.rpc.RetryInfo` asks for; details that cannot be read say nothing. */
function retryDelay(details: Buffer): number | undefined {
  try {
    for (const any of readParts(details).all(3)) {
      const parts = readParts(any)
      const info = parts.all(2).at(-1)
      const delay = info === undefined ? undefined : readParts(info).all(1).at(-1)
      if (delay === undefined || !parts.text(1).endsWith(`/${retryInfo}`)) continue
      let ms = 0
      for (const { number, value } of fieldsOf(delay)) {
        if (typeof value === 'bigint') ms += Number(BigInt.asIntN(64, value)) * (number === 1 ? 1_000 : 1e-6)
      }
      return Math.min(Math.max(0, Math.ceil(ms)), longestWaitMs)
    }
  } catch {
    return undefined
  }
  return undefined
}
