import { ToolError } from '@gantry/contract'
import { follow } from '../resilience/follow.ts'

/** The longest that a check takes, whatever time its program has. */
const longestMs = 30_000

/** The time of a check, until `end` is called. */
export interface CheckTime {
  /** Aborts with the call, and when the time is over. */
  readonly signal: AbortSignal
  end(): void
}

/** A check is a part of its program's run, so that it never takes longer than that may. */
export function checkTime(call: AbortSignal, wallMs: number): CheckTime {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(tooLong(wallMs)), Math.min(wallMs, longestMs))
  const { signal, leave } = follow(call, late.signal)
  return {
    signal,
    end() {
      clearTimeout(timer)
      leave()
    },
  }
}

function tooLong(wallMs: number): ToolError {
  const [code, limit, time] =
    wallMs <= longestMs
      ? (['TIMEOUT', 'wallMs', 'limits.wallMs'] as const)
      : (['LIMIT_EXCEEDED', 'checkMs', `${longestMs} ms`] as const)
  const message = `The check of the program did not end within ${time}; make it simpler, or leave check out.`
  return new ToolError(code, message, { effect: 'none', details: { limit } })
}
