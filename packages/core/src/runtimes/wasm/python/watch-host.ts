import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import { usageOf } from './usage.ts'

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
    const usage = pid === undefined ? undefined : await usageOf(pid)
    if (usage === undefined || stopped) return
    first ??= usage.cpuMs
    last = usage.cpuMs - first
    if (last >= limits.cpuMs) resolve('cpuMs')
    if (usage.residentBytes >= limits.memoryBytes + besideBytes) resolve('memoryBytes')
    timer = setTimeout(() => void poll(), pollMs)
  }
  void poll()
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
