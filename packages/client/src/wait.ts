import type { CallState, ChainResult, Result } from '@gantry/contract'
import { cancelled, type Http, type Request, segment } from './http.ts'

/** A submitted call: its location, or its outcome. */
export type Submitted<T extends Outcome = Outcome> =
  | { readonly kind: 'accepted'; readonly callId: string; readonly state: CallState }
  | { readonly kind: 'ended'; readonly callId: string; readonly result: T }

type Outcome = Result | ChainResult

interface Accepted {
  readonly callId: string
  readonly state: CallState
}

/** Called with the id of a call that is no longer waited for. */
export type Canceller = (callId: string) => void

/** How long one request waits; proxies cut longer ones. */
export const waitMs = 30_000
const graceMs = 15_000
/** An answer that came sooner did not wait, because its service is about to stop. */
const promptMs = 1_000

/** Submits a call. The request is not aborted with `until`, because only its response says which call to cancel. */
export async function submit<T extends Outcome>(http: Http, request: Request, wait: number): Promise<Submitted<T>> {
  if (request.until?.aborted) throw cancelled(request.until)
  const asked: Request = {
    ...request,
    method: 'POST',
    body: { ...request.body, waitMs: wait },
    timeoutMs: wait + graceMs,
  }
  const { body, location } = await http.json<T | Accepted>(asked)
  if (isAccepted(body)) return { kind: 'accepted', callId: body.callId, state: body.state }
  return { kind: 'ended', callId: decodeURIComponent(location?.split('/').at(-1) ?? ''), result: body }
}

/** An outcome has a `status`, a call without one yet has a `state`. */
function isAccepted(body: Outcome | Accepted): body is Accepted {
  return 'state' in body
}

/** The outcome of a call, however long it takes and whatever becomes of the service meanwhile. */
async function outcome<T extends Outcome>(http: Http, callId: string, signal: AbortSignal | undefined): Promise<T> {
  const path = `/v1/calls/${segment(callId)}`
  while (true) {
    const started = Date.now()
    const request: Request = { path, query: { waitMs }, signal, timeoutMs: waitMs + graceMs }
    const { body } = await http.json<{ readonly result?: T }>(request)
    if (body.result !== undefined) return body.result
    if (Date.now() - started < promptMs) await http.pause(promptMs / 4, signal)
  }
}

/** Submits a call and waits for its outcome. */
export async function run<T extends Outcome>(
  http: Http,
  request: Request,
  signal: AbortSignal | undefined,
  cancel: Canceller | undefined,
): Promise<T> {
  // A caller that may abort must know the id first, which costs one more request.
  const early = signal !== undefined && cancel !== undefined
  const submission = submit<T>(http, { ...request, until: signal }, early ? 0 : waitMs)
  const submitted = await awaitSubmission(submission, signal, cancel)
  if (submitted.kind === 'ended') return submitted.result
  try {
    return await outcome<T>(http, submitted.callId, signal)
  } catch (error) {
    if (signal?.aborted) cancel?.(submitted.callId)
    throw error
  }
}

/** Waits for a submission; one that is left behind is cancelled as soon as its id is known. */
export async function awaitSubmission<T extends Outcome>(
  submission: Promise<Submitted<T>>,
  signal: AbortSignal | undefined,
  cancel: Canceller | undefined,
): Promise<Submitted<T>> {
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
