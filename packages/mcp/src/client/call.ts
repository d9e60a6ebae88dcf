import { type ErrorCode, ToolError, type ToolErrorOptions } from '@gantry/contract'
import type { BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import { quote } from '@gantry/core/internal/ids/quote'
import type { Connection } from './connection.ts'
import { type Logs, plainText } from './logs.ts'
import type { Sdk } from './sdk.ts'

/** The SDK ends every request after a time; the pipeline's own deadline must come first. */
const longestMs = 2_147_483_647

/**
 * Sends one call and gives the server's result as it is. Progress is always asked for. The idempotency key goes along
 * as `_meta["gantry/idempotencyKey"]`, for servers that keep such keys, and the place in a trace as
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
  // The notification to the server says that the call was cancelled, without the reason.
  const onAbort = (): void => stop.abort('The call was cancelled.')
  signal.throwIfAborted()
  const progressToken = incoming.nextToken()
  const deaf = incoming.watch(progressToken, (report) => context.progress(report))
  const { traceparent } = context
  const place = traceparent === undefined ? {} : { traceparent }
  const _meta = { progressToken, 'gantry/idempotencyKey': context.idempotencyKey, ...place }
  const params = { name, arguments: args, _meta }
  const options = { signal: stop.signal, timeout: longestMs }
  logs.begin(context)
  signal.addEventListener('abort', onAbort, { once: true })
  try {
    if (!modern) return await client.request({ method: 'tools/call', params }, callResult, options)
    // Without an output schema, because the pipeline checks outputs; with the input's, for its header marks.
    const toolDefinition = { name, inputSchema: tool.inputSchema as { readonly type: 'object' } }
    return await client.callTool(params, { ...options, toolDefinition })
  } finally {
    deaf()
    logs.end(context)
    signal.removeEventListener('abort', onAbort)
  }
}

/** Ten times what is shown of a message: a cut that could halve a secret must lie behind what anybody sees. */
const longestMessage = 100_000
const deepestCause = 8
const longestExcerpt = 300
/** Statuses of a request that the server did not process. */
const turnedAway: ReadonlySet<number> = new Set([404, 405, 406, 413, 415])

type HttpFault = InstanceType<Sdk['SdkHttpError']>

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
  if (sdk.SdkHttpError.isInstance(error)) return fromHttp(server, error)
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

/**
 * Whether a server says that it does not know the session of the request: by 404, as the protocol wants it, or by 400
 * with an error about the session, as the servers of its own authors do. The call cannot have begun: what would serve
 * it belongs to the session that the server could not find, and a tool that fails is answered with 200.
 */
export function isForgotten(sdk: Sdk, error: unknown, hadSession: boolean): boolean {
  if (!sdk.SdkHttpError.isInstance(error)) return false
  if (!hadSession) return false
  return error.status === 404 || (error.status === 400 && unknownSession.test(wordsOf(error)))
}

/** As servers say it; a refusal that only speaks of some session may come from the tool itself. */
const unknownSession =
  /(?:no valid|unknown|invalid|expired|unrecognized|missing) (?:mcp[- ]?)?session|session(?: id)? (?:is |was )?(?:not found|unknown|invalid|expired|does not exist)/i

/** What a refusal says: the message of an error of the protocol, else the text as it is. */
function wordsOf({ data }: HttpFault): string {
  const { text } = data as { readonly text?: unknown }
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
  const code: ErrorCode = status !== undefined && turnedAway.has(status) ? 'BACKEND_UNAVAILABLE' : 'BACKEND_FAILED'
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
