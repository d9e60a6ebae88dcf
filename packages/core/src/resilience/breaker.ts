import type { BreakerJson } from './breaker-json.ts'
import { type BreakerState, Circuit, type CircuitOptions } from './circuit.ts'
import { type Outcome, outcomeOf } from './faults.ts'
import { checkShapes, type OptionShape } from './options.ts'
import { isPromiseLike } from './promise-like.ts'

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
