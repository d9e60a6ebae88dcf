import { checkShapes, type OptionShape } from './options.ts'
import { RollingWindow } from './window.ts'

export interface RetryBudgetOptions {
  /** Repeats for each call; 0.2 lets a failing backend see a fifth more load, not three times as much. */
  readonly ratio?: number
  /** Repeats that are always allowed, so that a rare call has its chance. */
  readonly minPerSecond?: number
  /** Milliseconds that only grow. */
  readonly now?: () => number
}

/** What all calls together may spend on repeats in ten seconds. Share one over the calls of a backend. */
export interface RetryBudget {
  /** A call begins. */
  call(): void
  /** Whether there may be one more repeat now; if so, it is spent. */
  repeat(): boolean
}

const shapes: { readonly [Key in keyof Required<RetryBudgetOptions>]: OptionShape } = {
  ratio: { kind: 'number', least: 0, most: 100 },
  minPerSecond: { kind: 'number', least: 0 },
  now: { kind: 'function' },
}

const windowMs = 10_000

export function createRetryBudget(options: RetryBudgetOptions = {}): RetryBudget {
  checkShapes('createRetryBudget', options, shapes)
  const { ratio = 0.2, minPerSecond = 1, now = () => performance.now() } = options
  /** Its calls are calls, its failures repeats. */
  const window = new RollingWindow(windowMs)
  const reserve = (minPerSecond * windowMs) / 1_000
  return {
    call: () => window.add(now(), 1, 0),
    repeat() {
      const time = now()
      window.pass(time)
      if (window.failures + 1 > ratio * window.calls + reserve) return false
      window.add(time, 0, 1)
      return true
    },
  }
}
