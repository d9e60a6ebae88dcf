import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import { type ProcessUsage, usageOf } from './usage.ts'

/** Watches a host from outside, where nothing that its program does holds it up. */
export interface HostWatch {
  /** Resolves with the limit that was reached; never, when none is. */
  readonly hit: Promise<SandboxLimit>
  /** Processor time of the turn, as last seen. */
  cpuMs(): number | undefined
  stop(): void
}

const pollMs = 50
/** What an interpreter takes beside its linear memory, with room to spare. */
const besideBytes = 320 * 1_048_576

export function watchHost(pid: number | undefined, limits: SandboxLimits): HostWatch {
  const { promise: hit, resolve } = Promise.withResolvers<SandboxLimit>()
  const wall = setTimeout(() => resolve('wallMs'), limits.wallMs)
  let timer: NodeJS.Timeout | undefined
  let [first, last]: (number | undefined)[] = []
  let stopped = false
  const poll = async (): Promise<void> => {
    // Once it cannot be read it may be again: that alone ends no watch.
    const usage = pid === undefined ? undefined : await usageOf(pid)
    if (stopped) return
    if (usage !== undefined) weigh(usage)
    timer = setTimeout(() => void poll(), pollMs)
  }
  const weigh = ({ cpuMs, residentBytes }: ProcessUsage): void => {
    first ??= cpuMs
    last = cpuMs - first
    if (last >= limits.cpuMs) resolve('cpuMs')
    if (residentBytes >= limits.memoryBytes + besideBytes) resolve('memoryBytes')
  }
  if (pid !== undefined) void poll()
  return {
    hit,
    cpuMs: () => last,
    stop() {
      stopped = true
      clearTimeout(wall)
      clearTimeout(timer)
    },
  }
}
