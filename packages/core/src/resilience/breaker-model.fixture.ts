import type { BreakerState } from './circuit.ts'

interface Call {
  readonly era: number
  readonly trial: boolean
}

export interface ModelOptions {
  readonly windowMs: number
  readonly failureRatio: number
  readonly minCalls: number
  readonly openMs: number
  readonly maxOpenMs: number
  readonly trialMs: number
}

/** The naive reference model: it keeps every outcome and counts them again for each call. */
export class ModelBreaker {
  state: BreakerState['state'] = 'closed'
  era = 0
  since: number
  retryAt = 0
  trialEnds = 0
  rests = 0
  outcomes: { at: number; fault: boolean }[] = []
  readonly #options: ModelOptions

  constructor(options: ModelOptions, time: number) {
    this.#options = options
    this.since = time
  }

  /** The call, or undefined when it is refused. */
  enter(time: number): Call | undefined {
    if (this.state === 'closed') return { era: this.era, trial: false }
    if (this.state === 'trial') {
      if (time >= this.trialEnds) this.#rest(time)
      return undefined
    }
    if (time < this.retryAt) return undefined
    this.#become('trial', time)
    this.trialEnds = time + this.#options.trialMs
    return { era: this.era, trial: true }
  }

  end(call: Call, outcome: 'success' | 'fault' | 'ignored', time: number): void {
    if (call.era !== this.era) return
    if (call.trial) this.#judge(outcome, time)
    else if (outcome !== 'ignored') this.#count(outcome, time)
  }

  #count(outcome: 'success' | 'fault', time: number): void {
    this.outcomes.push({ at: time, fault: outcome === 'fault' })
    const { calls, failures } = this.counts(time)
    const { minCalls, failureRatio } = this.#options
    if (outcome === 'fault' && calls >= minCalls && failures / calls >= failureRatio) this.#rest(time)
  }

  counts(time: number): { calls: number; failures: number } {
    const slice = this.#options.windowMs / 10
    const oldest = Math.floor(time / slice) - 9
    const recent = this.outcomes.filter(({ at }) => Math.floor(at / slice) >= oldest)
    return { calls: recent.length, failures: recent.filter(({ fault }) => fault).length }
  }

  isDue(time: number): boolean {
    return this.state === 'open' && time >= this.retryAt
  }

  /** Another process reports an open circuit. */
  hold(restMs: number, rests: number, time: number): void {
    const { maxOpenMs } = this.#options
    if (this.state === 'trial') return
    if (this.state === 'closed' && time - this.since >= maxOpenMs) this.rests = 0
    this.rests = Math.max(this.rests, rests)
    const retryAt = time + Math.min(maxOpenMs, Math.max(0, restMs))
    if (this.state === 'open') this.retryAt = Math.max(this.retryAt, retryAt)
    else {
      this.retryAt = retryAt
      this.#become('open', time)
    }
  }

  /** Another process reports a successful trial. */
  close(time: number): void {
    if (this.state === 'closed') return
    this.outcomes = []
    this.#become('closed', time)
  }

  /** A restart loses a running trial: the next call is the trial. */
  loseTrial(time: number): void {
    this.era += 1
    if (this.state !== 'trial') return
    this.state = 'open'
    this.retryAt = time
  }

  #judge(outcome: 'success' | 'fault' | 'ignored', time: number): void {
    if (outcome === 'fault') this.#rest(time)
    else this.#become(outcome === 'success' ? 'closed' : 'open', time)
    if (outcome === 'success') this.outcomes = []
    if (outcome === 'ignored') this.retryAt = time
  }

  #rest(time: number): void {
    const { openMs, maxOpenMs } = this.#options
    const calm = this.state === 'closed' && time - this.since >= maxOpenMs
    this.rests = calm ? 1 : this.rests + 1
    this.retryAt = time + Math.min(maxOpenMs, openMs * 2 ** (this.rests - 1))
    this.#become('open', time)
  }

  #become(state: BreakerState['state'], time: number): void {
    this.state = state
    this.since = time
    this.era += 1
  }
}
