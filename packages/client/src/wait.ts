import type { CallState, CallView, ChainResult, Result } from '@gantry/contract'
import { cancelled, type Http, type Request, segment } from './http.ts'

/** A call that was handed in: where it is, or how it ended. */
export type Submitted =
  | { readonly kind: 'accepted'; readonly callId: string; readonly state: CallState }
  | { readonly kind: 'ended'; readonly callId: string; readonly result: Result | ChainResult }

/** Hears the id of a call that nobody waits for any more. */
export type Canceller = (callId: string) => void

/** How long one request waits; proxies cut longer ones. */
export const waitMs = 30_000
const graceMs = 15_000
/** An answer that came sooner did not wait, because its service is about to stop. */
const promptMs = 1_000

/**
 * Hands a call in. The request is not broken off when `until` aborts, because only its answer says which call is to be
 * cancelled.
 */
export async function submit(http: Http, request: Request, wait: number): Promise<Submitted> {
  if (request.until?.aborted) throw cancelled(request.until)
  const body = { ...(request.body as object), waitMs: wait }
  const answer = await http.json({ ...request, method: 'POST', body, timeoutMs: wait + graceMs })
  if (answer.status === 200) {
    const callId = decodeURIComponent(answer.location?.split('/').at(-1) ?? '')
    return { kind: 'ended', callId, result: answer.body as Result | ChainResult }
  }
  const { callId, state } = answer.body as { readonly callId: string; readonly state: CallState }
  return { kind: 'accepted', callId, state }
}

/** The outcome of a call, however long it takes and whatever becomes of the service meanwhile. */
export async function outcome(
  http: Http,
  callId: string,
  signal: AbortSignal | undefined,
): Promise<Result | ChainResult> {
  const path = `/v1/calls/${segment(callId)}`
  while (true) {
    const started = Date.now()
    const { body } = await http.json({ path, query: { waitMs }, signal, timeoutMs: waitMs + graceMs })
    const { result } = body as CallView
    if (result !== undefined) return result
    if (Date.now() - started < promptMs) await http.pause(promptMs / 4, signal)
  }
}

/** Hands a call in and waits for its outcome. */
export async function run(
  http: Http,
  request: Request,
  signal: AbortSignal | undefined,
  cancel: Canceller | undefined,
): Promise<Result | ChainResult> {
  // Who may leave must know the id first, and costs one more request for that.
  const early = signal !== undefined && cancel !== undefined
  const submitted = await handIn(submit(http, { ...request, until: signal }, early ? 0 : waitMs), signal, cancel)
  if (submitted.kind === 'ended') return submitted.result
  try {
    return await outcome(http, submitted.callId, signal)
  } catch (error) {
    if (signal?.aborted) cancel?.(submitted.callId)
    throw error
  }
}

/** Waits for a submission; one that is left behind is cancelled as soon as its id is known. */
export async function handIn(
  submission: Promise<Submitted>,
  signal: AbortSignal | undefined,
  cancel: Canceller | undefined,
): Promise<Submitted> {
  if (signal === undefined) return submission
  let abort = (): void => undefined
  const left = new Promise<never>((_resolve, reject) => {
    abort = () => {
      reject(cancelled(signal))
      submission.then(
        (submitted) => void (submitted.kind === 'accepted' && cancel?.(submitted.callId)),
        () => undefined,
      )
    }
    signal.addEventListener('abort', abort)
    if (signal.aborted) abort()
  })
  try {
    return await Promise.race([submission, left])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
