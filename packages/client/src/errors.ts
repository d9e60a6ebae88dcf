import { codes, type EffectRisk, type ErrorCode, type ErrorInfo, ToolError } from '@gantry/contract'

/** Why a request did not give what it was sent for, and whether it may be sent again. */
export interface Fault {
  readonly error: ToolError
  readonly again: boolean
  readonly retryAfterMs?: number
}

/** The fault that an answer is. One that is not ours comes from something in between. */
export async function faultOf(response: Response): Promise<Fault> {
  const retryAfterMs = retryAfter(response.headers.get('retry-after'))
  const info = await infoOf(response)
  const error = info === undefined ? foreignError(response) : toolError(info)
  const busy = response.status === 429 || response.status === 503
  const between = info === undefined && (response.status === 502 || response.status === 504)
  return { error, again: (busy && error.retryable) || between, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

/** The fault that no answer is: there is nobody, or the connection broke. */
export function unreachable(url: string, effect: EffectRisk, cause: unknown): Fault {
  const error = new ToolError('SERVICE_UNAVAILABLE', `The service at ${url} does not answer.`, { cause, effect })
  return { error, again: true }
}

export function cancelled(signal: AbortSignal): ToolError {
  return new ToolError('CANCELLED', 'The caller stopped waiting.', { cause: signal.reason })
}

async function infoOf(response: Response): Promise<ErrorInfo | undefined> {
  try {
    const { error } = (await response.json()) as { readonly error?: ErrorInfo }
    return typeof error?.code === 'string' && typeof error.message === 'string' ? error : undefined
  } catch {
    return undefined
  }
}

/** A code that is not known here comes from a newer service. */
function toolError({ code, message, stage, retryable, effect, details }: ErrorInfo): ToolError {
  const known: ErrorCode = Object.hasOwn(codes, code) ? code : 'INTERNAL'
  const facts = { ...details, ...(known === code ? {} : { code }) }
  return new ToolError(known, message, { stage, retryable, effect, details: facts })
}

function foreignError({ status }: Response): ToolError {
  const message = `Something other than a Gantry service answered with ${status}.`
  return new ToolError('SERVICE_UNAVAILABLE', message, { effect: 'possible', details: { status } })
}

/** Seconds, or a date. */
function retryAfter(header: string | null): number | undefined {
  if (header === null) return undefined
  const ms = /^[0-9]{1,9}$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now()
  return Number.isNaN(ms) ? undefined : Math.max(0, ms)
}
