import type { Sandbox } from '@gantry/core/internal/runtimes/runtime'
import type { Hold } from './capacity.ts'

/**
 * ## Warm sandbox
 *
 * A sandbox that waits in a pool for its program.
 *
 * | state    | entered when                                             | left by                                |
 * | -------- | -------------------------------------------------------- | -------------------------------------- |
 * | awake    | it was started, or resumed                               | `pause`                                |
 * | changing | `pause` or `resume` was requested of the engine          | the engine's answer                    |
 * | paused   | the engine has stopped its processes                     | `resume`                               |
 * | broken   | the engine did not do it, so that nothing is known of it | its disposal                           |
 */
export interface WarmSandbox {
  readonly sandbox: Sandbox
  /** Start of its idle time. */
  readonly since: number
  readonly hold: Hold
  readonly state: 'awake' | 'changing' | 'paused' | 'broken'
  /** Stops its processes; follows a `resume` in progress. Rejects when it is broken. */
  pause(): Promise<void>
  /** Lets its processes run on; follows a `pause` in progress. Rejects when it is broken. */
  resume(): Promise<void>
}

type Wanted = 'awake' | 'paused'

/** `signal` ends requests to the engine; the sandbox is then broken. */
export function warmSandbox(sandbox: Sandbox, since: number, hold: Hold, signal: AbortSignal): WarmSandbox {
  let state: WarmSandbox['state'] = 'awake'
  let wanted: Wanted = 'awake'
  let last: Promise<void> = Promise.resolve()

  const change = (to: Wanted): Promise<void> => {
    const { pausing } = sandbox
    if (wanted === to || pausing === undefined) return last
    wanted = to
    const request = async (): Promise<void> => {
      state = 'changing'
      await (to === 'paused' ? pausing.pause(signal) : pausing.resume(signal))
      state = to
    }
    last = last.then(request)
    last.catch(() => {
      state = 'broken'
    })
    return last
  }
  return {
    sandbox,
    since,
    hold,
    get state() {
      return state
    },
    pause: () => change('paused'),
    resume: () => change('awake'),
  }
}
