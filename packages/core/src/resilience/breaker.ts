import { ToolError } from '@gantry/contract'
import { isPromiseLike } from '../json/kinds.ts'
import {
  type BreakerJson,
  type BreakerState,
  Circuit,
  type CircuitOptions,
  type Outcome,
  outcomeOf,
} from './circuit.ts'
import { checkShapes, type OptionShape } from './options.ts'

export interface BreakerOptions extends CircuitOptions {
  /** What an error says about the backend; by default what `isFault` says. */
  readonly outcome?: (error: unknown) => Outcome
}

/** Leave to make one call. One of its functions is called when the call has ended; what follows is ignored. */
export interface Permit {
  /** This call is the one that decides whether the circuit closes. */
  readonly trial: boolean
  succeed(): void
  /** The backend was at fault. */
  fault(): void
  /** The call says nothing about the backend: refused, cancelled, given up. */
  leave(): void
}

/**
 * Keeps calls from a backend that fails; `circuit.ts` says when.
 * - Concurrency: any number of calls at once; a call counts when it ends, if the state is still that in which it began.
 * - Cancellation: a call that is cancelled says nothing, and gives a trial back.
 * - Errors: CIRCUIT_OPEN, with `details.retryAfterMs`, is thrown at once instead of the call, before asynchronous work too;
 *   what the call throws passes through.
 */
export interface Breaker {
  readonly name: string
  readonly state: BreakerState
  /** The rest is over, so that the next call would be the trial. */
  readonly due: boolean
  /** Throws CIRCUIT_OPEN, or gives leave for one call. For calls whose end is elsewhere, such as streams. */
  enter(): Permit
  /** Makes a call; a synchronous one stays synchronous. A promise should settle: give the work a deadline. */
  run<T>(work: () => PromiseLike<T>): Promise<T>
  run<T>(work: () => T): T
  /** The function, guarded. */
  wrap<Args extends unknown[], T>(work: (...args: Args) => T): (...args: Args) => T
  /**
   * Opens it because others who call this backend did, or lets it rest for longer; `streak` is how often they opened
   * since the backend was last well for a while. What is not later than what is known here changes nothing.
   */
  hold(restMs: number, streak: number): void
  /** Closes it because a trial of others went well. */
  close(): void
  /** What survives the process; a trial does not, so a breaker on trial is kept as open and due. */
  toJSON(): BreakerJson
  /** Takes up what `toJSON` gave; CONFIG_INVALID when it is anything else, and nothing has changed then. */
  restore(json: unknown): void
}

export const breakerShapes: { readonly [Key in keyof Required<BreakerOptions>]: OptionShape } = {
  name: { kind: 'string' },
  windowMs: { kind: 'number', least: 10 },
  failureRatio: { kind: 'number', least: 0.01, most: 1 },
  minCalls: { kind: 'number', least: 1, whole: true },
  openMs: { kind: 'number', least: 1 },
  maxOpenMs: { kind: 'number', least: 1 },
  trialMs: { kind: 'number', least: 1 },
  outcome: { kind: 'function' },
  onEvent: { kind: 'function' },
  now: { kind: 'function' },
  random: { kind: 'function' },
}

/** A circuit breaker; options that make no sense are CONFIG_INVALID. */
export function createBreaker(options: BreakerOptions = {}): Breaker {
  checkShapes('createBreaker', options, breakerShapes)
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

  /** The promise is taken once, because some start their work anew for each that takes them. */
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
  /** How many are kept. */
  readonly most?: number
}

/** A key and what became of its breaker. */
type KeyedState = BreakerState & { readonly key: string }
export interface KeyedJson {
  readonly key: string
  readonly breaker: BreakerJson
}

/**
 * A breaker for each key, such as a tool at a backend, made when first asked for; its name is the key.
 * Beyond `most`, the one longest unused that is closed without a failure goes, or else simply the one longest unused.
 */
export interface Breakers {
  get(key: string): Breaker
  list(): KeyedState[]
  /** Closes the breaker of a key, if there is one. */
  close(key: string): void
  snapshot(): KeyedJson[]
  /** Takes up what `snapshot` gave, beside what is there; CONFIG_INVALID when it is anything else. */
  restore(json: unknown): void
}

export function createBreakers(options: BreakersOptions = {}): Breakers {
  const { name: _, ...shapes } = breakerShapes
  checkShapes('createBreakers', options, { ...shapes, most: { kind: 'number', least: 1, whole: true } })
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

/** Reads the rows of a snapshot; CONFIG_INVALID when it is none. */
export function readRows(json: unknown, most: number): { readonly key: string; readonly breaker: unknown }[] {
  const sound = Array.isArray(json) && json.length <= most
  if (!sound) throw refused('', `must be a list of at most ${most} breakers`)
  return json.map((row: unknown, index) => {
    const { key, breaker } = (row ?? {}) as { readonly key?: unknown; readonly breaker?: unknown }
    if (typeof key !== 'string') throw refused(`/${index}/key`, 'must be a text')
    return { key, breaker }
  })
}

function refused(path: string, message: string): ToolError {
  const text = `These are not the kept states of breakers: ${path === '' ? 'it' : path} ${message}.`
  return new ToolError('CONFIG_INVALID', text, { details: { issues: [{ path, message }] } })
}
