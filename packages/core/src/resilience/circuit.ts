import { performance } from 'node:perf_hooks'
import { type ErrorCode, ToolError } from '@gantry/contract'
import { type BreakerJson, readBreaker, type Slice, sliceCount } from './circuit-state.ts'

/** How a failed call counts for its backend: `fault` counts as a failure, `ignored` does not count. */
export type Outcome = 'fault' | 'ignored'

/** Codes that always mean that the backend, not the call, was at fault. */
const faultCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'TIMEOUT',
  'BACKEND_UNAVAILABLE',
  'SANDBOX_INIT_FAILED',
  'OUTCOME_UNKNOWN',
])

/**
 * Whether an error counts as a fault of the backend: it timed out, was unreachable or broke during the call.
 * An invalid argument, a denial, a cancelled call and a failure that the tool reports do not count. Never throws.
 */
export function isFault(error: unknown): boolean {
  try {
    if (ToolError.is(error)) return faultCodes.has(error.code) || (error.code === 'BACKEND_FAILED' && broke(error))
    return !(error instanceof Error && error.name === 'AbortError')
  } catch {
    return true
  }
}

/** A failure that the tool reports has no cause or a status below 500; a broken connection or process has a cause. */
function broke({ retryable, details, cause }: ToolError): boolean {
  const status = details?.status
  return retryable || (typeof status === 'number' ? status >= 500 : cause !== undefined)
}

/** The default of a breaker's `outcome`. */
export function outcomeOf(error: unknown): Outcome {
  return isFault(error) ? 'fault' : 'ignored'
}

/** When a circuit opens, for how long, and who is notified. */
export interface CircuitOptions {
  /** The name in messages and events. */
  readonly name?: string
  /** The length of the rolling window in which calls are counted. */
  readonly windowMs?: number
  /** The ratio of faults, above 0 and at most 1, at which the circuit opens. */
  readonly failureRatio?: number
  /** With fewer calls in the window the circuit stays closed. */
  readonly minCalls?: number
  /** The first open period; each further one is twice as long. */
  readonly openMs?: number
  readonly maxOpenMs?: number
  /** A trial that takes longer has failed; must exceed the longest call. */
  readonly trialMs?: number
  readonly onEvent?: (event: BreakerEvent) => void
  /** Monotonic milliseconds since 1970. */
  readonly now?: () => number
  /** From 0 to 1. */
  readonly random?: () => number
}

interface Counts {
  /** Start of this state, in milliseconds since 1970. */
  readonly since: number
  /** Counted calls in the window. */
  readonly calls: number
  readonly failures: number
  /** Length of the current or the last open period; 0 before the first. */
  readonly openMs: number
}

/** The current state of a circuit. */
export type BreakerState =
  | (Counts & { readonly state: 'closed' | 'trial' })
  | (Counts & { readonly state: 'open'; readonly retryAt: number })

interface EventFacts {
  readonly name: string
  readonly at: number
  /** Reported by another process that shares the backend, through `hold` or `close`. */
  readonly elsewhere?: true
}

export type BreakerEvent =
  /** `streak` counts the openings since the circuit was last closed for `maxOpenMs`. */
  | (EventFacts & { readonly kind: 'opened'; readonly retryAt: number; readonly streak: number })
  | (EventFacts & { readonly kind: 'trial' | 'closed' })

/** The least `retryAfterMs` while a trial runs, because its length is unknown. */
const trialHintMs = 1_000

/**
 * # States of a circuit
 *
 * - `closed`: every call is admitted and counted in a rolling window.
 * - `open`: every call is refused until the open period ends. The first open period is `openMs`, each further one twice
 *   as long, up to `maxOpenMs`; jitter shortens it by up to half, so that many processes do not try at once. A circuit
 *   that has been closed for `maxOpenMs` starts again with `openMs`.
 * - `trial`: the first call after the open period is admitted, and every other call is refused.
 *
 * | from   | to     | cause                                                                                        |
 * | ------ | ------ | -------------------------------------------------------------------------------------------- |
 * | closed | open   | a fault, with `minCalls` calls in the window and at least `failureRatio` of them faults      |
 * | closed | open   | `hold`: another process found the backend failing                                            |
 * | open   | open   | `hold`: extends the open period, to `maxOpenMs` from now at most                             |
 * | open   | trial  | a call enters after the open period                                                          |
 * | trial  | closed | the call succeeds; the window is emptied                                                     |
 * | trial  | open   | the call is a fault, or does not end within `trialMs`                                        |
 * | trial  | open   | the call is ignored (cancelled, refused); the next call is the trial                         |
 * | any    | closed | `close`: the trial of another process succeeded                                              |
 *
 * `hold` does not end a trial, because the outcome of the trial is newer. Each change of state starts a new era; a call
 * that started in an earlier era is not counted.
 */
export class Circuit {
  readonly name: string
  readonly #failureRatio: number
  readonly #minCalls: number
  readonly #firstOpenMs: number
  readonly #maxOpenMs: number
  readonly #trialMs: number
  readonly #onEvent: ((event: BreakerEvent) => void) | undefined
  readonly #now: () => number
  readonly #random: () => number
  readonly #window: RollingWindow
  #state: BreakerState['state'] = 'closed'
  #era = 0
  #since: number
  /** Openings since the circuit was last closed for `maxOpenMs`. */
  #streak = 0
  #openMs = 0
  /** End of the open period or of the trial. */
  #until = 0

  constructor(options: CircuitOptions) {
    this.name = options.name ?? 'The backend'
    this.#failureRatio = options.failureRatio ?? 0.5
    this.#minCalls = options.minCalls ?? 5
    this.#firstOpenMs = options.openMs ?? 5_000
    this.#maxOpenMs = Math.max(options.maxOpenMs ?? 60_000, this.#firstOpenMs)
    this.#trialMs = options.trialMs ?? 300_000
    this.#onEvent = options.onEvent
    this.#now = options.now ?? steadyNow
    this.#random = options.random ?? Math.random
    this.#window = new RollingWindow(options.windowMs ?? 60_000)
    this.#since = this.#now()
  }

  get state(): BreakerState {
    this.#window.pass(this.#now())
    const { calls, failures } = this.#window
    const counts = { since: this.#since, calls, failures, openMs: this.#openMs }
    if (this.#state === 'open') return { state: 'open', ...counts, retryAt: this.#until }
    return { state: this.#state, ...counts }
  }

  get onTrial(): boolean {
    return this.#state === 'trial'
  }

  /** The next call would be the trial. */
  get due(): boolean {
    return this.#state === 'open' && this.#now() >= this.#until
  }

  /** The era of an admitted call; throws CIRCUIT_OPEN when the call is refused. */
  enter(): number {
    return this.#state === 'closed' ? this.#era : this.#enterTrial(this.#now())
  }

  /** Records the outcome of a call of an era. */
  end(era: number, outcome: Outcome | 'success'): void {
    if (era !== this.#era || (outcome === 'ignored' && this.#state === 'closed')) return
    const now = this.#now()
    if (this.#state === 'closed') this.#count(now, outcome === 'fault')
    else if (outcome === 'success') this.#close(now)
    else if (outcome === 'fault') this.#open(now)
    else this.#abandonTrial(now)
  }

  hold(restMs: number, streak: number): void {
    if (this.#state === 'trial') return
    const now = this.#now()
    const closed = this.#state === 'closed'
    const restsMs = Math.max(0, Math.min(restMs, this.#maxOpenMs))
    if (closed || streak > this.#streak) this.#openMs = Math.round(restsMs)
    this.#streak = Math.max(this.#isCalm(now) ? 0 : this.#streak, streak)
    if (!closed) {
      this.#until = Math.max(this.#until, now + restsMs)
      return
    }
    this.#change('open', now)
    this.#until = now + restsMs
    this.#emitOpened(now, { elsewhere: true })
  }

  close(): void {
    if (this.#state !== 'closed') this.#close(this.#now(), { elsewhere: true })
  }

  toJSON(): BreakerJson {
    const now = this.#now()
    const kept = { since: this.#since, streak: this.#streak, openMs: this.#openMs, window: this.#window.slices(now) }
    if (this.#state === 'closed') return { state: 'closed', ...kept }
    return { state: 'open', ...kept, retryAt: this.#state === 'open' ? this.#until : now }
  }

  restore(json: unknown): void {
    const now = this.#now()
    const kept = readBreaker(json)
    this.#era += 1
    this.#state = kept.state
    this.#since = Math.min(kept.since, now)
    this.#streak = kept.streak
    this.#openMs = Math.min(kept.openMs, this.#maxOpenMs)
    // A wrong clock or a hostile file must not keep the circuit open for longer than `maxOpenMs`.
    this.#until = kept.state === 'open' ? Math.min(kept.retryAt, now + this.#maxOpenMs) : 0
    this.#window.load(kept.window, now)
  }

  #enterTrial(now: number): number {
    if (this.#state === 'trial' && now >= this.#until) this.#open(now)
    // The longer the trial runs, the later other calls retry.
    if (this.#state === 'trial') throw refusal(this.name, Math.max(trialHintMs, now - this.#since))
    if (now < this.#until) throw refusal(this.name, this.#until - now)
    this.#change('trial', now)
    this.#until = now + this.#trialMs
    const era = this.#era
    this.#emit({ kind: 'trial', name: this.name, at: now })
    return era
  }

  #count(now: number, fault: boolean): void {
    const window = this.#window
    window.add(now, 1, fault ? 1 : 0)
    if (fault && window.calls >= this.#minCalls && window.failures >= this.#failureRatio * window.calls) this.#open(now)
  }

  #open(now: number): void {
    this.#streak = this.#isCalm(now) ? 1 : this.#streak + 1
    const longest = Math.min(this.#maxOpenMs, this.#firstOpenMs * 2 ** Math.min(this.#streak - 1, 30))
    this.#openMs = Math.round(longest * (1 - this.#random() / 2))
    this.#change('open', now)
    this.#until = now + this.#openMs
    this.#emitOpened(now)
  }

  #isCalm(now: number): boolean {
    return this.#state === 'closed' && now - this.#since >= this.#maxOpenMs
  }

  #close(now: number, source: Pick<EventFacts, 'elsewhere'> = {}): void {
    this.#window.clear()
    this.#change('closed', now)
    this.#emit({ kind: 'closed', name: this.name, at: now, ...source })
  }

  /** Ends a trial without an outcome: the next call is the trial. */
  #abandonTrial(now: number): void {
    this.#change('open', now)
    this.#until = now
  }

  #change(state: BreakerState['state'], now: number): void {
    this.#state = state
    this.#since = now
    this.#era += 1
  }

  #emitOpened(now: number, source: Pick<EventFacts, 'elsewhere'> = {}): void {
    this.#emit({ kind: 'opened', name: this.name, at: now, retryAt: this.#until, streak: this.#streak, ...source })
  }

  #emit(event: BreakerEvent): void {
    try {
      this.#onEvent?.(event)
    } catch (error) {
      process.emitWarning(`A listener of a breaker threw: ${error instanceof Error ? error.name : typeof error}`)
    }
  }
}

/** CIRCUIT_OPEN for a refused call. */
export function refusal(name: string, waitMs: number): ToolError {
  const retryAfterMs = Math.max(1, Math.ceil(waitMs))
  const text = `${name} failed too often and its circuit is open; try again in ${retryAfterMs} ms.`
  return new ToolError('CIRCUIT_OPEN', text, { details: { retryAfterMs } })
}

/** Wall-clock time that never goes backwards within a process. */
export function steadyNow(): number {
  return origin + performance.now()
}

const origin = performance.timeOrigin

/** Counts calls and failures in a rolling window. A time before the newest slice is counted in the newest slice. */
export class RollingWindow {
  #calls = 0
  #failures = 0
  #newest = Number.NEGATIVE_INFINITY
  readonly #sliceMs: number
  readonly #callsIn = new Float64Array(sliceCount)
  readonly #failuresIn = new Float64Array(sliceCount)

  constructor(windowMs: number) {
    this.#sliceMs = windowMs / sliceCount
  }

  /** Calls in the window, as of the last `add` or `pass`. */
  get calls(): number {
    return this.#calls
  }

  get failures(): number {
    return this.#failures
  }

  /** Counts calls that ended at a time. */
  add(time: number, calls: number, failures: number): void {
    this.pass(time)
    const place = placeOf(this.#newest)
    this.#callsIn[place] = (this.#callsIn[place] ?? 0) + calls
    this.#failuresIn[place] = (this.#failuresIn[place] ?? 0) + failures
    this.#calls += calls
    this.#failures += failures
  }

  /** Advances to a time and drops expired slices. */
  pass(time: number): void {
    const slice = Math.floor(time / this.#sliceMs)
    if (slice <= this.#newest) return
    const first = Math.max(this.#newest + 1, slice - sliceCount + 1)
    for (let gone = first; gone <= slice; gone++) this.#forget(placeOf(gone))
    this.#newest = slice
  }

  clear(): void {
    for (let place = 0; place < sliceCount; place++) this.#forget(place)
  }

  /** The slices with calls, oldest first. */
  slices(time: number): Slice[] {
    this.pass(time)
    const found: Slice[] = []
    for (let slice = this.#newest - sliceCount + 1; slice <= this.#newest; slice++) {
      const place = placeOf(slice)
      const calls = this.#callsIn[place] ?? 0
      if (calls > 0) found.push([slice * this.#sliceMs, calls, this.#failuresIn[place] ?? 0])
    }
    return found
  }

  /** Loads slices, oldest first; slices in the future count as now. */
  load(slices: readonly Slice[], time: number): void {
    this.clear()
    this.#newest = Number.NEGATIVE_INFINITY
    // The middle of a slice, so that rounding cannot move it into the one before.
    for (const [start, calls, failures] of slices) this.add(Math.min(start + this.#sliceMs / 2, time), calls, failures)
    this.pass(time)
  }

  #forget(place: number): void {
    this.#calls -= this.#callsIn[place] ?? 0
    this.#failures -= this.#failuresIn[place] ?? 0
    this.#callsIn[place] = 0
    this.#failuresIn[place] = 0
  }
}

function placeOf(slice: number): number {
  return ((slice % sliceCount) + sliceCount) % sliceCount
}
