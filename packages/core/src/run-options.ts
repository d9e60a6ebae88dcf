import {
  type Identity,
  type Issue,
  type JsonObject,
  type OnCircuitOpen,
  type Report,
  type RetryRule,
  ToolError,
} from '@gantry/contract'
import type { ProgramJournal, WriteBack } from './backends/program-journal.ts'
import { isIdentity, isPositive, unknownKey } from './executor-options.ts'
import type { CallRequest } from './pipeline/ports.ts'
import type { Recorded } from './pipeline/recorded.ts'
import { readTraceparent } from './tracing/tracer.ts'

/** How one call differs from the executor's defaults. */
export interface RunOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
  readonly idempotencyKey?: string | undefined
  /** Which holder of a durable call this is; the tool sees it. */
  readonly fence?: number | undefined
  /** Who calls; established by the host program, never read from arguments. */
  readonly identity?: Identity | undefined
  /** Digest of the tool the caller saw; another one is CATALOG_STALE. */
  readonly schemaDigest?: string | undefined
  /** What the gateway says of the occasion of the call; the tool sees it, and nothing is decided by it. */
  readonly origin?: JsonObject | undefined
  /** The trace that the call belongs to, as W3C writes it; what is none is ignored. */
  readonly traceparent?: string | undefined
  readonly retry?: RetryRule | undefined
  /** Whether the call waits while its circuit is open, as long as its time lasts; what its tool says when absent. */
  readonly onCircuitOpen?: OnCircuitOpen | undefined
  readonly callId?: string | undefined
  /** Which of the tool's backends to use, by key: `http:github`. Without it the first that can. */
  readonly backend?: string | undefined
  /** Takes what the tool reports while it runs; a promise makes a streaming tool wait. */
  readonly report?: ((report: Report) => void | Promise<void>) | undefined
  /** Takes what the tool writes back to its caller while it runs. */
  readonly writeBack?: WriteBack | undefined
  /** Keeps what the inner calls of a program come to, so that a later attempt takes it up; other tools do not see it. */
  readonly program?: ProgramJournal | undefined
  /**
   * Runs the call dry: what was recorded stands in for the tool, and null where nothing is known of such a call. No
   * backend is reached, no secret fetched, nobody asked to approve, and nothing put on record. Left out, or the tool
   * runs: a value of undefined is refused, so that a record that was not found cannot become a call. A program that comes
   * with its journal in `program` is run over that, in a sandbox, and the journal must make nothing of what is new to it.
   */
  readonly recorded?: Recorded | null
}

export const noOptions: RunOptions = Object.freeze({})

const longestKey = 1_000

/** What is wrong with the options of a call, if anything; a call with wrong options is refused, not guessed at. */
export function checkRunOptions(options: RunOptions): ToolError | undefined {
  if (options === noOptions) return undefined
  const issue = firstIssue(options)
  if (issue === undefined) return undefined
  return new ToolError('INPUT_INVALID', `The option ${issue.path} ${issue.message}.`, { details: { issues: [issue] } })
}

const known = [
  'signal',
  'timeoutMs',
  'idempotencyKey',
  'identity',
  'schemaDigest',
  'traceparent',
  'origin',
  'retry',
  'onCircuitOpen',
  'callId',
  'backend',
  'report',
  'fence',
  'writeBack',
  'recorded',
  'program',
]

function firstIssue(options: RunOptions): Issue | undefined {
  const stray = Object.keys(options).find((key) => !known.includes(key))
  if (stray !== undefined) return { path: `/${stray}`, message: unknownKey(stray, known) }
  const {
    timeoutMs,
    signal,
    identity,
    retry,
    report,
    fence,
    writeBack,
    recorded,
    traceparent,
    program,
    origin,
    ...texts
  } = options
  if (timeoutMs !== undefined && !isPositive(timeoutMs)) {
    return { path: '/timeoutMs', message: 'must be a number of milliseconds above 0' }
  }
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    return { path: '/signal', message: 'must be an AbortSignal' }
  }
  if (identity !== undefined && !isIdentity(identity)) {
    return { path: '/identity', message: 'must have a principal, a tenant and a list of permissions' }
  }
  if (retry !== undefined && !isRetry(retry)) {
    return { path: '/retry', message: 'must have attempts from 1 to 100, and delays of 0 ms or more' }
  }
  if (options.onCircuitOpen !== undefined && options.onCircuitOpen !== 'fail' && options.onCircuitOpen !== 'wait') {
    return { path: '/onCircuitOpen', message: 'must be fail or wait' }
  }
  if (fence !== undefined && !Number.isSafeInteger(fence)) return { path: '/fence', message: 'must be a whole number' }
  if (traceparent !== undefined && typeof traceparent !== 'string') {
    return { path: '/traceparent', message: 'must be a text' }
  }
  if (origin !== undefined && (typeof origin !== 'object' || origin === null || Array.isArray(origin))) {
    return { path: '/origin', message: 'must be an object' }
  }
  if (report !== undefined && typeof report !== 'function') return { path: '/report', message: 'must be a function' }
  if (writeBack !== undefined && !isWriteBack(writeBack)) {
    return { path: '/writeBack', message: 'must have the functions send or keep' }
  }
  if (program !== undefined && typeof program?.settle !== 'function') {
    return { path: '/program', message: 'must be a journal' }
  }
  if ('recorded' in options && !isRecorded(recorded)) {
    return { path: '/recorded', message: 'must be a result, or null when there is none' }
  }
  for (const key of ['idempotencyKey', 'schemaDigest', 'callId', 'backend'] as const) {
    const text: unknown = texts[key]
    if (text === undefined || (typeof text === 'string' && text.length > 0 && text.length <= longestKey)) continue
    return { path: `/${key}`, message: `must be a text of 1 to ${longestKey} characters` }
  }
  return undefined
}

function isRecorded(value: RunOptions['recorded']): boolean {
  return value === null || (typeof value === 'object' && 'output' in value && Array.isArray(value.content))
}

function isWriteBack(value: WriteBack): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { send, keep } = value
  return [send, keep].every((hook) => hook === undefined || typeof hook === 'function')
}

function isRetry(value: RetryRule): boolean {
  if (typeof value !== 'object' || value === null) return false
  const { attempts, delayMs = 0, maxDelayMs = 0 } = value
  const delays = [delayMs, maxDelayMs].every((ms) => typeof ms === 'number' && Number.isFinite(ms) && ms >= 0)
  return delays && Number.isInteger(attempts) && attempts >= 1 && attempts <= 100
}

/** What a door wants to hear of a call besides its Result. */
export type CallObserver = Partial<Pick<CallRequest, 'report' | 'failed' | 'place'>>

export function requestOf(
  tool: string,
  args: unknown,
  given: RunOptions,
  callId: string,
  identity: Identity,
  hear: CallObserver | undefined,
): CallRequest {
  return {
    callId,
    tool,
    args,
    identity,
    idempotencyKey: given.idempotencyKey,
    fence: given.fence,
    schemaDigest: given.schemaDigest,
    traceparent: given.traceparent === undefined ? undefined : readTraceparent(given.traceparent),
    origin: given.origin,
    signal: given.signal,
    timeoutMs: given.timeoutMs,
    retry: given.retry,
    onCircuitOpen: given.onCircuitOpen,
    backend: given.backend,
    report: hear?.report ?? given.report,
    writeBack: given.writeBack,
    program: given.program,
    recorded: given.recorded,
    failed: hear?.failed,
    place: hear?.place,
  }
}

export function closed(): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', 'The executor is closed.', { retryable: false })
}

/**
 * Makes ids in the shape of a UUID at the price of a counter: a random front for this executor, a count behind it.
 * They are unique, not secret, so the engine's own randomness is enough; a host that needs unguessable ids passes them.
 */
export function createCallIds(random: () => number = Math.random): () => string {
  const digits = (count: number): string => {
    const value = Math.floor(random() * 16 ** count)
    return value.toString(16).padStart(count, '0')
  }
  const front = `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-`
  const last = Array.from({ length: block }, (_, number) => number.toString(16).padStart(3, '0'))
  let count = 0
  let start = front
  return () => {
    count += 1
    const low = count % block
    if (low === 0 || start === front)
      start =
        front +
        Math.floor(count / block)
          .toString(16)
          .padStart(9, '0')
    return start + (last[low] ?? '')
  }
}

/** Ids are counted in blocks, so that most cost one joining of two texts. */
const block = 4_096
