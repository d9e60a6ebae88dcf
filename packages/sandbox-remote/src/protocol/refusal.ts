import { codes, type ErrorCode, type ErrorDetails, type JsonObject, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { copyJson } from '@gantry/core/internal/json/plain'

/** Why the server did not do what was requested; the client reads the code. */
export type RefusalCode =
  | 'UNSIGNED'
  | 'KEY_UNKNOWN'
  | 'SIGNATURE_WRONG'
  | 'CLOCK'
  | 'NONCE_USED'
  | 'NONCES_FULL'
  | 'INSTANCE_CHANGED'
  | 'BODY_CHANGED'
  | 'BODY_TOO_LARGE'
  | 'NOT_FOUND'
  | 'CONFLICT'
  | 'SANDBOX_GONE'
  | 'RUN_UNKNOWN'
  | 'DRAINING'
  | 'FULL'
  | 'INVALID'

const statuses: { readonly [Code in RefusalCode]: number } = {
  UNSIGNED: 401,
  KEY_UNKNOWN: 401,
  SIGNATURE_WRONG: 401,
  CLOCK: 401,
  NONCE_USED: 401,
  NONCES_FULL: 503,
  INSTANCE_CHANGED: 409,
  BODY_CHANGED: 401,
  BODY_TOO_LARGE: 413,
  NOT_FOUND: 404,
  CONFLICT: 409,
  SANDBOX_GONE: 404,
  RUN_UNKNOWN: 404,
  DRAINING: 503,
  FULL: 503,
  INVALID: 400,
}

export function isRefusalCode(value: unknown): value is RefusalCode {
  return typeof value === 'string' && Object.hasOwn(statuses, value)
}

/** A request that the server refuses, before anything ran. */
export class RequestRefusal extends Error {
  override readonly name = 'RequestRefusal'
  readonly code: RefusalCode
  readonly status: number

  constructor(code: RefusalCode, message: string) {
    super(message)
    this.code = code
    this.status = statuses[code]
  }
}

const longestMessage = 2_000

/** An error of a runtime as it crosses: without its cause, which may name paths of the host. */
export function errorDocument(error: unknown): JsonObject {
  const known = ToolError.is(error) ? error : new ToolError('BACKEND_FAILED', 'The runtime of the host failed.')
  const { code, message, retryable, effect } = known
  return { error: { code, message: message.slice(0, longestMessage), retryable, effect, ...detailsOf(known) } }
}

function detailsOf({ details }: ToolError): JsonObject {
  if (details === undefined) return {}
  try {
    return { details: copyJson(details) }
  } catch {
    return {}
  }
}

/** The error of such a document; undefined when it is none. */
export function readErrorDocument(value: unknown): ToolError | undefined {
  if (!isObject(value) || !isObject(value.error)) return undefined
  const { code, message, retryable, effect, details } = value.error
  if (!isErrorCode(code) || typeof message !== 'string') return undefined
  return new ToolError(code, message.slice(0, longestMessage), {
    ...(typeof retryable === 'boolean' ? { retryable } : {}),
    ...(effect === 'none' || effect === 'possible' ? { effect } : {}),
    ...(typeof details === 'object' && details !== null ? { details: details as ErrorDetails } : {}),
  })
}

function isErrorCode(value: unknown): value is ErrorCode {
  return typeof value === 'string' && Object.hasOwn(codes, value)
}
