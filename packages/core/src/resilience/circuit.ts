import { performance } from 'node:perf_hooks'
import { type ErrorCode, ToolError } from '@gantry/contract'
import { RollingWindow, type Slice, sliceCount } from './window.ts'

/** What a failed call says about the backend behind it: `fault` counts against it, `ignored` says nothing. */
export type Outcome = 'fault' | 'ignored'

/** Codes that always mean that the backend, not the call, was at fault. */
const faultCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  'TIMEOUT',
  'BACKEND_UNAVAILABLE',
  'SANDBOX_INIT_FAILED',
  'OUTCOME_UNKNOWN',
])

/**
 * Whether an error speaks against the backend: it did not answer in time, could not be reached or broke while it worked.
 * A wrong argument, a denial, a cancelled call and a tool that answers with a failure of its own do not. Never throws.
 */
export function isFault(error: unknown): boolean {
  try {
    if (ToolError.is(error)) return faultCodes.has(error.code) || (error.code === 'BACKEND_FAILED' && broke(error))
    return !(error instanceof Error && error.name === 'AbortError')
  } catch {
    return true
  }
}

/** A tool's own answer has no cause and a status under 500; a connection or a process that broke has a cause. */
function broke({ retryable, details, cause }: ToolError): boolean {
  const status = details?.status
  return retryable || (typeof status === 'number' ? status >= 500 : cause !== undefined)
}

/** The default of a breaker's `outcome`. */
export function outcomeOf(error: unknown): Outcome {
  return isFault(error) ? 'fault' : 'ignored'
}

// The global of this name is a getter, which costs more than the reading.

/** When a circuit opens, how long it rests, and whom it tells. */
export interface CircuitOptions {
  /** Who rests, in messages and events. */
  readonly name?: string
  /** The time over which calls are counted. */
  readonly windowMs?: number
  /** The share of faults, above 0 and at most 1, from which on the circuit opens. */
  readonly failureRatio?: number
  /** With fewer calls in the window it stays closed. */
  readonly minCalls?: number
  /** The first rest; each that follows is twice as long. */
  readonly openMs?: number
  readonly maxOpenMs?: number
  /** A trial that has not ended by then has failed; longer than the longest call. */
  readonly trialMs?: number
  readonly onEvent?: (event: BreakerEvent) => void
  /** Milliseconds since 1970 that do not jump. */
  readonly now?: () => number
  /** From 0 to 1. */
  readonly random?: () => number
}

interface Counts {
  /** When it came into this state, in milliseconds since 1970. */
  readonly since: number
  /** Calls that counted, and those of them that were faults, in the window. */
  readonly calls: number
  readonly failures: number
  /** How long it rests, or rested last; 0 before the first time. */
  readonly openMs: number
}

/** A circuit as it stands. */
export type BreakerState =
  | (Counts & { readonly state: 'closed' | 'trial' })
  | (Counts & { readonly state: 'open'; readonly retryAt: number })

interface EventFacts {
  readonly name: string
  readonly at: number
  /** It was not found out here: whoever shares the backend said so, by `hold` or `close`. */
  readonly elsewhere?: true
}

export type BreakerEvent =
  /** `streak` counts the openings since it last was closed for a while. */
  | (EventFacts & { readonly kind: 'opened'; readonly retryAt: number; readonly streak: number })
  | (EventFacts & { readonly kind: 'trial' | 'closed' })

/** What a caller is told to wait for while a trial runs, at least; nobody knows how long that takes. */
const trialHintMs = 1_000

/**
 * closed: every call goes through and is counted in a rolling window. A fault that finds `minCalls` calls in the window
 *   and at least `failureRatio` of them faults opens the circuit.
 * open: no call goes through until the rest is over. The first rest lasts `openMs`, each that follows twice as long, up to
 *   `maxOpenMs`; up to half of it is taken off at random, so that many processes do not try at once. A circuit that has
 *   been closed for `maxOpenMs` starts over with the first.
 * trial: the first call after the rest goes through, alone. Its success closes the circuit with an empty window; its fault,
 *   or `trialMs` without an end, opens it again; when it ends otherwise, the circuit is open and the next call is the trial.
 *
 * Others who call the same backend tell what they found out. `hold` opens a closed circuit and lets an open one rest for
 * longer, never for less, and never for more than `maxOpenMs` from now; a trial goes on, because it will know better.
 * `close` closes the circuit whatever it was, as the success of a trial does.
 *
 * Each change of state begins a new era. A call that began in an earlier one is not counted: it tells of the past.
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
  /** Openings since it last was closed for a while. */
  #streak = 0
  #openMs = 0
  /** When a rest or a trial is over. */
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

  /** The era that a call belongs to; throws CIRCUIT_OPEN when there is no way through. */
  enter(): number {
    return this.#state === 'closed' ? this.#era : this.#enterTrial(this.#now())
  }

  /** Tells how a call of an era ended. */
  end(era: number, outcome: Outcome | 'success'): void {
    if (era !== this.#era || (outcome === 'ignored' && this.#state === 'closed')) return
    const now = this.#now()
    if (this.#state === 'closed') this.#count(now, outcome === 'fault')
    else if (outcome === 'success') this.#close(now)
    else if (outcome === 'fault') this.#open(now)
    else this.#giveBack(now)
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
    this.#tellOpened(now, { elsewhere: true })
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
    // Another clock, or a hostile file, must not keep it open for longer than it ever rests.
    this.#until = kept.state === 'open' ? Math.min(kept.retryAt, now + this.#maxOpenMs) : 0
    this.#window.load(kept.window, now)
  }

  #enterTrial(now: number): number {
    if (this.#state === 'trial' && now >= this.#until) this.#open(now)
    // The longer it takes, the less often it is asked about.
    if (this.#state === 'trial') throw refusal(this.name, Math.max(trialHintMs, now - this.#since))
    if (now < this.#until) throw refusal(this.name, this.#until - now)
    this.#change('trial', now)
    this.#until = now + this.#trialMs
    const era = this.#era
    this.#tell({ kind: 'trial', name: this.name, at: now })
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
    this.#tellOpened(now)
  }

  #isCalm(now: number): boolean {
    return this.#state === 'closed' && now - this.#since >= this.#maxOpenMs
  }

  #close(now: number, source: Pick<EventFacts, 'elsewhere'> = {}): void {
    this.#window.clear()
    this.#change('closed', now)
    this.#tell({ kind: 'closed', name: this.name, at: now, ...source })
  }

  /** The trial was no trial: the next call may be. */
  #giveBack(now: number): void {
    this.#change('open', now)
    this.#until = now
  }

  #change(state: BreakerState['state'], now: number): void {
    this.#state = state
    this.#since = now
    this.#era += 1
  }

  #tellOpened(now: number, source: Pick<EventFacts, 'elsewhere'> = {}): void {
    this.#tell({ kind: 'opened', name: this.name, at: now, retryAt: this.#until, streak: this.#streak, ...source })
  }

  #tell(event: BreakerEvent): void {
    try {
      this.#onEvent?.(event)
    } catch (error) {
      process.emitWarning(`A listener of a breaker threw: ${error instanceof Error ? error.name : typeof error}`)
    }
  }
}

/** The error of a call that a circuit does not let through. */
export function refusal(name: string, waitMs: number): ToolError {
  const retryAfterMs = Math.max(1, Math.ceil(waitMs))
  const text = `${name} failed too often and rests; try again in ${retryAfterMs} ms.`
  return new ToolError('CIRCUIT_OPEN', text, { details: { retryAfterMs } })
}

/** Like the wall clock, but never backwards while the process lives. */
export function steadyNow(): number {
  return origin + performance.now()
}

const origin = performance.timeOrigin

interface Kept {
  readonly since: number
  readonly streak: number
  readonly openMs: number
  readonly window: readonly Slice[]
}

/** What of a breaker survives a process. Times are milliseconds since 1970. */
export type BreakerJson =
  | (Kept & { readonly state: 'closed' })
  | (Kept & { readonly state: 'open'; readonly retryAt: number })

const keys: { readonly [State in BreakerJson['state']]: readonly string[] } = {
  closed: ['state', 'since', 'streak', 'openMs', 'window'],
  open: ['state', 'since', 'streak', 'openMs', 'window', 'retryAt'],
}

/** Reads what was kept, as a copy of its own; CONFIG_INVALID when it is anything else. */
export function readBreaker(json: unknown): BreakerJson {
  if (typeof json !== 'object' || json === null || Array.isArray(json)) throw refused('', 'must be an object')
  const { state, since, streak, openMs, window, retryAt } = json as { readonly [key: string]: unknown }
  if (state !== 'closed' && state !== 'open') throw refused('/state', 'must be closed or open')
  const unknown = Object.keys(json).find((key) => !keys[state].includes(key))
  if (unknown !== undefined) throw refused('', `must have only the keys ${keys[state].join(', ')}`)
  const kept: Kept = {
    since: amount(since, '/since'),
    streak: count(streak, '/streak'),
    openMs: amount(openMs, '/openMs'),
    window: readWindow(window),
  }
  return state === 'closed' ? { state, ...kept } : { state, ...kept, retryAt: amount(retryAt, '/retryAt') }
}

function readWindow(window: unknown): Slice[] {
  if (!Array.isArray(window) || window.length > sliceCount) {
    throw refused('/window', `must be a list of at most ${sliceCount} slices`)
  }
  let before = Number.NEGATIVE_INFINITY
  return window.map((slice: unknown, index): Slice => {
    const path = `/window/${index}`
    if (!Array.isArray(slice) || slice.length !== 3) throw refused(path, 'must be [start, calls, failures]')
    const [start, calls, failures] = [amount(slice[0], path), count(slice[1], path), count(slice[2], path)]
    if (failures > calls || start <= before)
      throw refused(path, 'must come after the one before, with failures ≤ calls')
    before = start
    return [start, calls, failures]
  })
}

function amount(value: unknown, path: string): number {
  if (typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER) return value
  throw refused(path, 'must be a number of at least 0')
}

/** More calls than a process makes in a window; counts beyond it would keep a circuit closed for good. */
const mostCalls = 1_000_000_000

function count(value: unknown, path: string): number {
  if (Number.isInteger(value) && Number(value) <= mostCalls) return amount(value, path)
  throw refused(path, `must be a whole number from 0 to ${mostCalls}`)
}

function refused(path: string, message: string): ToolError {
  const text = `This is not the kept state of a breaker: ${path === '' ? 'it' : path} ${message}.`
  return new ToolError('CONFIG_INVALID', text, { details: { issues: [{ path, message }] } })
}
