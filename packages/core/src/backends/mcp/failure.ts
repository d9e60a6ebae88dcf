import { type ErrorCode, ToolError, type ToolErrorOptions } from '@gantry/contract'
import { plainText } from './log-lines.ts'
import type { Sdk } from './sdk.ts'

const longestMessage = 4_000
const deepestCause = 8
/** Statuses of a request that nobody looked into. */
const turnedAway: ReadonlySet<number> = new Set([404, 405, 406, 413, 415])

/**
 * Names what ended a request that was handed to the SDK. `over` says why the connection is gone, when it is: what had
 * been sent by then may have been done. Everything a server answers is a failure of the tool.
 */
export function failureOf(sdk: Sdk, server: string, error: unknown, over: string | undefined): ToolError {
  const own = ownError(error)
  if (own !== undefined) return own
  // The SDK's word for a request that found no transport to go out by.
  if (error instanceof Error && error.message === 'Not connected') return notSent(server, error)
  if (over !== undefined) return new ToolError('BACKEND_FAILED', over, { cause: error })
  if (sdk.MissingRequiredClientCapabilityError.isInstance(error)) {
    return new ToolError('BACKEND_FAILED', asked(server, Object.keys(error.requiredCapabilities)), { cause: error })
  }
  if (sdk.ProtocolError.isInstance(error)) return answered(error)
  if (sdk.SdkHttpError.isInstance(error)) return fromHttp(server, error.status, error)
  if (sdk.UnauthorizedError.isInstance(error) || sdk.InsufficientScopeError.isInstance(error)) {
    return refused(server, 'does not accept the credentials of this backend', error)
  }
  if (sdk.SdkError.isInstance(error)) return fromSdk(sdk, server, error)
  return new ToolError('BACKEND_FAILED', `The MCP server ${server} did not serve the request.`, { cause: error })
}

/** The same failure where no call can have been sent yet: nothing has happened, and another backend may be tried. */
export function beforeAnyCall(failure: ToolError): ToolError {
  if (failure.effect === 'none') return failure
  const { message, details, cause } = failure
  return new ToolError('BACKEND_UNAVAILABLE', message, { cause, ...(details === undefined ? {} : { details }) })
}

function notSent(server: string, cause: unknown): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', `The MCP server ${server} is not connected.`, { cause })
}

/** A ToolError that came through the SDK, such as one of the guarded way out. */
function ownError(error: unknown): ToolError | undefined {
  let cause = error
  for (let depth = 0; depth < deepestCause && typeof cause === 'object' && cause !== null; depth++) {
    if (ToolError.is(cause)) return cause
    cause = (cause as { readonly cause?: unknown }).cause
  }
  return undefined
}

function answered(error: Error & { readonly code: number }): ToolError {
  const text = plainText(error.message, longestMessage)
  const message = text.trim() === '' ? `The server answered with the error ${error.code}.` : text
  return new ToolError('BACKEND_FAILED', message, { details: { rpcCode: error.code } })
}

function fromHttp(server: string, status: number | undefined, cause: unknown): ToolError {
  const details = status === undefined ? {} : { details: { status } }
  if (status === 401 || status === 403) return refused(server, `refuses the credentials with HTTP ${status}`, cause)
  if (status === 429) {
    return new ToolError('RATE_LIMITED', `The MCP server ${server} takes no more calls now.`, { cause, ...details })
  }
  const code: ErrorCode = status !== undefined && turnedAway.has(status) ? 'BACKEND_UNAVAILABLE' : 'BACKEND_FAILED'
  const options: ToolErrorOptions = { cause, ...details, retryable: false }
  return new ToolError(code, `The MCP server ${server} answered with HTTP ${status ?? 'trouble'}.`, options)
}

function refused(server: string, how: string, cause: unknown): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', `The MCP server ${server} ${how}.`, { cause, retryable: false })
}

function fromSdk(sdk: Sdk, server: string, error: Error & { readonly code: string }): ToolError {
  const { SdkErrorCode } = sdk
  switch (error.code) {
    case SdkErrorCode.NotConnected:
      return notSent(server, error)
    case SdkErrorCode.RequestTimeout:
      return new ToolError('BACKEND_FAILED', `The MCP server ${server} did not answer in time.`, { cause: error })
    case SdkErrorCode.CapabilityNotSupported:
      return new ToolError('BACKEND_FAILED', asked(server, error.message.split(/['/]/)), { cause: error })
    case SdkErrorCode.InvalidResult:
      return new ToolError('BACKEND_FAILED', `The MCP server ${server} answered with something that is no result.`, {
        cause: error,
      })
    default:
      return new ToolError('BACKEND_FAILED', `The MCP server ${server} did not serve the request.`, { cause: error })
  }
}

const handlers = { elicitation: 'onElicitation', sampling: 'onSampling', roots: 'onRoots' } as const

/** Since 2026-07-28 a server asks by ending the call with questions; each kind of question needs its handler. */
function asked(server: string, words: readonly string[]): string {
  const found = Object.entries(handlers).find(([word]) => words.includes(word))
  if (found === undefined) return `The MCP server ${server} asks for something that this backend does not offer.`
  return `The MCP server ${server} asks for ${found[0]}, and this backend was given no ${found[1]}.`
}
