import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import type { Thread } from './thread.ts'

/** Waits for a program to overrun its time, from outside, where nothing that the program does holds it up. */
export interface ThreadWatch {
  /** Resolves with the limit that was reached; never, when none is. */
  readonly hit: Promise<SandboxLimit>
  stop(): void
}

/** QuickJS looks at the time itself and ends in good order; this is for when it cannot, in a long call of its own. */
const graceMs = 250
const pollMs = 25

export function watchThread(
  thread: Thread,
  kind: string,
  { wallMs, cpuMs }: Pick<SandboxLimits, 'wallMs' | 'cpuMs'>,
): ThreadWatch {
  const { promise: hit, resolve } = Promise.withResolvers<SandboxLimit>()
  const grace = kind === 'code' ? graceMs : 0
  const wall = setTimeout(() => resolve('wallMs'), wallMs + grace)
  // A thread cannot use more of a processor than time passes.
  const watched = cpuMs < wallMs
  const before = watched ? thread.cpuMs().catch(() => 0) : 0
  let stopped = false
  const poll = async (): Promise<void> => {
    const used = await thread.cpuMs().catch(() => 0)
    if (used - (await before) >= cpuMs + grace) resolve('cpuMs')
    else if (!stopped) timer = setTimeout(() => void poll(), pollMs)
  }
  let timer = watched ? setTimeout(() => void poll(), cpuMs + grace) : undefined
  return {
    hit,
    stop() {
      clearTimeout(wall)
      clearTimeout(timer)
      stopped = true
    },
  }
}
