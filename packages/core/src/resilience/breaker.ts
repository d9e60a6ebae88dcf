import { isPromiseLike } from '../json/plain.ts'
import { anyText, callback, number, whole } from '../options/option.ts'
import { checkOptions, optionsCheck } from '../options/options.ts'
import { type BreakerState, Circuit, type CircuitOptions, type Outcome, outcomeOf } from './circuit.ts'
import { type BreakerJson, readRows } from './circuit-state.ts'

export interface BreakerOptions extends CircuitOptions {
  /** Classifies an error; `isFault` by default. */
  readonly outcome?: (error: unknown) => Outcome
}

/** Permits one call. The holder calls one of its methods when the call has ended; later calls are ignored. */
export interface Permit {
  /** The outcome of this call decides whether the circuit closes. */
  readonly trial: boolean
  succeed(): void
  /** The backend was at fault. */
  fault(): void
  /** The call has no outcome for the backend: it was refused or cancelled. */
  leave(): void
}

/**
 * A circuit breaker: refuses calls to a failing backend; `circuit.ts` has its states.
 * - Concurrency: any number of calls at once; a call counts when it ends, if the state has not changed since it started.
 * - Cancellation: a cancelled call does not count, and a cancelled trial leaves the trial to the next call.
 * - Errors: CIRCUIT_OPEN with `details.retryAfterMs`, thrown synchronously instead of the call; errors of the call pass
 *   through.
 */
export interface Breaker {
  readonly name: string
  readonly state: BreakerState
  /** The open period has ended, so the next call is the trial. */
  readonly due: boolean
  /** Throws CIRCUIT_OPEN, or permits one call. For calls that end elsewhere, such as streams. */
  enter(): Permit
  /** Runs a call; a synchronous one stays synchronous. A promise must settle: give the work a deadline. */
  run<T>(work: () => PromiseLike<T>): Promise<T>
  run<T>(work: () => T): T
  /** The function behind this breaker. */
  wrap<Args extends unknown[], T>(work: (...args: Args) => T): (...args: Args) => T
  /**
   * Opens the circuit because another process did, or extends the open period; `streak` counts the openings there since
   * the circuit was last closed for `maxOpenMs`. An end of the open period that is not later is ignored.
   */
  hold(restMs: number, streak: number): void
  /** Closes the circuit because a trial in another process succeeded. */
  close(): void
  /** The state to persist. A trial does not survive the process: it is persisted as open and due. */
  toJSON(): BreakerJson
  /** Restores the output of `toJSON`; throws CONFIG_INVALID for anything else and changes nothing. */
  restore(json: unknown): void
}

export const circuitMembers = {
  windowMs: number(10),
  failureRatio: number(0.01, 1),
  minCalls: whole(1),
  openMs: number(1),
  maxOpenMs: number(1),
  trialMs: number(1),
}
const hooks = { outcome: callback, onEvent: callback, now: callback, random: callback }
const breakerCheck = optionsCheck<BreakerOptions>({
  members: { name: anyText, ...circuitMembers, ...hooks },
})
/** The check of the options of every set of circuits. */
export const breakersCheck = optionsCheck<BreakersOptions>({
  members: { ...circuitMembers, most: whole(1), ...hooks },
})

/** Creates a circuit breaker; throws CONFIG_INVALID for invalid options. */
export function createBreaker(options: BreakerOptions = {}): Breaker {
  checkOptions('options of createBreaker', breakerCheck, options)
  return new CircuitBreaker(options)
}

class CircuitBreaker implements Breaker {
  readonly #circuit: Circuit
  readonly #outcome: (error: unknown) => Outcome

  constructor(options: BreakerOptions) {
    this.#circuit = new Circuit(options)
    this.#outcome = options.outcome ?? outcomeOf
  }

  get name(): string {
    return this.#circuit.name
  }

  get state(): BreakerState {
    return this.#circuit.state
  }

  get due(): boolean {
    return this.#circuit.due
  }

  enter(): Permit {
    return new CircuitPermit(this.#circuit, this.#circuit.enter(), this.#circuit.onTrial)
  }

  run<T>(work: () => PromiseLike<T>): Promise<T>
  run<T>(work: () => T): T
  run(work: () => unknown): unknown {
    const era = this.#circuit.enter()
    let result: unknown
    let pending = false
    try {
      result = work()
      pending = isPromiseLike(result)
    } catch (error) {
      this.#fail(era, error)
      throw error
    }
    if (pending) return this.#watch(era, result)
    this.#circuit.end(era, 'success')
    return result
  }

  wrap<Args extends unknown[], T>(work: (...args: Args) => T): (...args: Args) => T {
    return (...args) => this.run(() => work(...args))
  }

  hold(restMs: number, streak: number): void {
    this.#circuit.hold(restMs, streak)
  }

  close(): void {
    this.#circuit.close()
  }

  toJSON(): BreakerJson {
    return this.#circuit.toJSON()
  }

  restore(json: unknown): void {
    this.#circuit.restore(json)
  }

  /** Calls `then` once, because a lazy thenable starts its work for each `then`. */
  #watch(era: number, result: unknown): Promise<unknown> {
    return Promise.resolve(result).then(
      (value) => {
        this.#circuit.end(era, 'success')
        return value
      },
      (error: unknown) => {
        this.#fail(era, error)
        throw error
      },
    )
  }

  #fail(era: number, error: unknown): void {
    let outcome: Outcome
    try {
      outcome = this.#outcome(error)
    } catch {
      outcome = 'fault'
    }
    this.#circuit.end(era, outcome)
  }
}

class CircuitPermit implements Permit {
  readonly trial: boolean
  readonly #era: number
  #circuit: Circuit | undefined

  constructor(circuit: Circuit, era: number, trial: boolean) {
    this.#circuit = circuit
    this.#era = era
    this.trial = trial
  }

  succeed(): void {
    this.#settle('success')
  }

  fault(): void {
    this.#settle('fault')
  }

  leave(): void {
    this.#settle('ignored')
  }

  #settle(outcome: Outcome | 'success'): void {
    const circuit = this.#circuit
    this.#circuit = undefined
    circuit?.end(this.#era, outcome)
  }
}

export interface BreakersOptions extends Omit<BreakerOptions, 'name'> {
  /** Most breakers that are kept. */
  readonly most?: number
}

/** A key and the state of its breaker. */
type KeyedState = BreakerState & { readonly key: string }
export interface KeyedJson {
  readonly key: string
  readonly breaker: BreakerJson
}

/**
 * A breaker per key, such as a tool at a backend, created on first use; its name is the key.
 * Beyond `most`, the least recently used breaker that is closed without failures is evicted, otherwise the least recently
 * used one.
 */
export interface Breakers {
  get(key: string): Breaker
  list(): KeyedState[]
  /** Closes the breaker of a key, if it exists. */
  close(key: string): void
  snapshot(): KeyedJson[]
  /** Adds the breakers of a `snapshot`; throws CONFIG_INVALID for anything else. */
  restore(json: unknown): void
}

export function createBreakers(options: BreakersOptions = {}): Breakers {
  checkOptions('options of createBreakers', breakersCheck, options)
  const { most = 1_000, ...each } = options
  /** In the order of use. */
  const kept = new Map<string, Breaker>()
  let newest: string | undefined

  const make = (key: string): Breaker => {
    if (kept.size >= most) kept.delete(leastNeeded(kept))
    return createBreaker({ ...each, name: key })
  }
  const get = (key: string): Breaker => {
    const known = kept.get(key)
    if (known !== undefined && key === newest) return known
    const breaker = known ?? make(key)
    kept.delete(key)
    kept.set(key, breaker)
    newest = key
    return breaker
  }
  return {
    get,
    list: () => [...kept].map(([key, breaker]) => ({ key, ...breaker.state })),
    close: (key) => kept.get(key)?.close(),
    snapshot: () => [...kept].map(([key, breaker]) => ({ key, breaker: breaker.toJSON() })),
    restore(json) {
      const scratch = createBreaker(each)
      const rows = readRows(json, most)
      for (const { breaker } of rows) scratch.restore(breaker)
      for (const { key, breaker } of rows) get(key).restore(breaker)
    },
  }
}

function leastNeeded(kept: ReadonlyMap<string, Breaker>): string {
  const [oldest = ''] = kept.keys()
  for (const [key, breaker] of kept) {
    const { state, failures } = breaker.state
    if (state === 'closed' && failures === 0) return key
  }
  return oldest
}
