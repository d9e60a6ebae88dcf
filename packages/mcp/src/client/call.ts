import { type ErrorCode, ToolError, type ToolErrorOptions } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import { quote } from '@gantry/core/internal/ids/quote'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Connection } from './connection.ts'
import { type Logs, plainText } from './logs.ts'
import type { Sdk } from './sdk.ts'

/** The SDK's own request timeout, longer than every deadline of the pipeline. */
const longestMs = 2_147_483_647

/**
 * Sends one call and returns the server's result unchanged. It always requests progress. The idempotency key is sent
 * as `_meta["gantry/idempotencyKey"]`, for servers that store such keys, and the trace context as
 * `_meta.traceparent`. Rejects with what the SDK throws.
 */
export async function sendCall(
  { client, modern, callResult, incoming }: Connection,
  logs: Logs,
  name: string,
  { tool, args }: BackendCall,
  context: BackendContext,
): Promise<unknown> {
  const { signal } = context
  const stop = new AbortController()
  signal.throwIfAborted()
  const progressToken = incoming.nextToken()
  const deaf = incoming.watch(progressToken, (report) => context.progress(report))
  const { traceparent } = context
  const location = traceparent === undefined ? {} : { traceparent }
  const _meta = { progressToken, 'gantry/idempotencyKey': context.idempotencyKey, ...location }
  const params = { name, arguments: args, _meta }
  const options = { signal: stop.signal, timeout: longestMs }
  logs.begin(context)
  // The cancellation notification does not contain the reason.
  const leave = onAbort(signal, () => stop.abort('The call was cancelled.'))
  try {
    if (!modern) return await client.request({ method: 'tools/call', params }, callResult, options)
    // Without an output schema, because the pipeline checks outputs; with the input's, for its header marks.
    const toolDefinition = { name, inputSchema: tool.inputSchema as { readonly type: 'object' } }
    return await client.callTool(params, { ...options, toolDefinition })
  } finally {
    deaf()
    logs.end(context)
    leave()
  }
}

/** Ten times the displayed length: a truncation that could split a secret must be beyond the displayed part. */
const longestMessage = 100_000
const deepestCause = 8
const longestExcerpt = 300
/** Statuses of a request that the server did not process. */
const refusedStatuses: ReadonlySet<number> = new Set([404, 405, 406, 413, 415])

type HttpFault = InstanceType<Sdk['SdkHttpError']>

/**
 * The error of a request that was passed to the SDK. `over` is the reason why the connection ended, if it did: a request
 * that was already sent may have been processed. Every error response of a server is a failure of the tool.
 */
export function failureOf(sdk: Sdk, server: string, error: unknown, over: string | undefined): ToolError {
  const own = ownError(error)
  if (own !== undefined) return own
  // The SDK's error for a request without a connected transport.
  if (error instanceof Error && error.message === 'Not connected') return notSent(server, error)
  if (over !== undefined) return new ToolError('BACKEND_FAILED', over, { cause: error })
  if (sdk.MissingRequiredClientCapabilityError.isInstance(error)) {
    return new ToolError('BACKEND_FAILED', asked(server, Object.keys(error.requiredCapabilities)), { cause: error })
  }
  if (sdk.ProtocolError.isInstance(error)) return answered(error)
  if (sdk.SdkHttpError.isInstance(error)) return fromHttp(server, error)
  if (sdk.UnauthorizedError.isInstance(error) || sdk.InsufficientScopeError.isInstance(error)) {
    return refused(server, 'does not accept the credentials of this backend', error)
  }
  if (sdk.SdkError.isInstance(error)) return fromSdk(sdk, server, error)
  return new ToolError('BACKEND_FAILED', `The MCP server ${server} did not serve the request.`, { cause: error })
}

/** The same failure before a call was sent: it had no effect, and another backend may be tried. */
export function beforeAnyCall(failure: ToolError): ToolError {
  if (failure.effect === 'none') return failure
  const { message, details, cause } = failure
  return new ToolError('BACKEND_UNAVAILABLE', message, { cause, ...(details === undefined ? {} : { details }) })
}

function notSent(server: string, cause: unknown): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', `The MCP server ${server} is not connected.`, { cause })
}

/** A ToolError that passed through the SDK, such as one of egress. */
function ownError(error: unknown): ToolError | undefined {
  let cause = error
  for (let depth = 0; depth < deepestCause && typeof cause === 'object' && cause !== null; depth++) {
    if (ToolError.is(cause)) return cause
    cause = 'cause' in cause ? cause.cause : undefined
  }
  return undefined
}

function answered(error: Error & { readonly code: number }): ToolError {
  const text = plainText(error.message, longestMessage)
  const message = text.trim() === '' ? `The server answered with the error ${error.code}.` : text
  return new ToolError('BACKEND_FAILED', message, { details: { rpcCode: error.code } })
}

/**
 * Whether a server does not know the session of the request: HTTP 404, as the protocol requires, or 400 with an error
 * about the session, as the reference servers do. The call cannot have started: it would run within the session that
 * the server could not find, and a failed tool is answered with 200.
 */
export function isForgotten(sdk: Sdk, error: unknown, hadSession: boolean): boolean {
  if (!sdk.SdkHttpError.isInstance(error)) return false
  if (!hadSession) return false
  return error.status === 404 || (error.status === 400 && unknownSession.test(wordsOf(error)))
}

/** The wording of known servers; any other message about a session may come from the tool itself. */
const unknownSession =
  /(?:no valid|unknown|invalid|expired|unrecognized|missing) (?:mcp[- ]?)?session|session(?: id)? (?:is |was )?(?:not found|unknown|invalid|expired|does not exist)/i

/** The message of a refusal: that of a JSON-RPC error, else the text. */
function wordsOf({ data }: HttpFault): string {
  const text = isObject(data) ? data.text : undefined
  if (typeof text !== 'string') return ''
  try {
    const message: unknown = JSON.parse(text)?.error?.message
    return typeof message === 'string' ? message : text
  } catch {
    return text
  }
}

function fromHttp(server: string, cause: HttpFault): ToolError {
  const { status } = cause
  const details = status === undefined ? {} : { details: { status } }
  const words = wordsOf(cause).trim()
  const said = words === '' ? '' : `: ${quote(words, longestExcerpt)}`
  if (status === 401 || status === 403)
    return refused(server, `refuses the credentials with HTTP ${status}${said}`, cause)
  if (status === 429) {
    const message = `The MCP server ${server} takes no more calls now${said}.`
    return new ToolError('RATE_LIMITED', message, { cause, ...details })
  }
  const code: ErrorCode = status !== undefined && refusedStatuses.has(status) ? 'BACKEND_UNAVAILABLE' : 'BACKEND_FAILED'
  const options: ToolErrorOptions = { cause, ...details, retryable: false }
  return new ToolError(code, `The MCP server ${server} answered with HTTP ${status ?? 'trouble'}${said}.`, options)
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
      return new ToolError('BACKEND_FAILED', `The MCP server ${server} answered with an invalid result.`, {
        cause: error,
      })
    default:
      return new ToolError('BACKEND_FAILED', `The MCP server ${server} did not serve the request.`, { cause: error })
  }
}

const handlers = { elicitation: 'onElicitation', sampling: 'onSampling', roots: 'onRoots' } as const

/** Since 2026-07-28 a server requests input by ending the call with input requests; each kind needs its handler. */
function asked(server: string, words: readonly string[]): string {
  const found = Object.entries(handlers).find(([word]) => words.includes(word))
  if (found === undefined) return `The MCP server ${server} requested a capability that this backend does not offer.`
  return `The MCP server ${server} requested ${found[0]}, and this backend has no ${found[1]} handler.`
}
