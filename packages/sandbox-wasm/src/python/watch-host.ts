import { readFile } from 'node:fs/promises'
import type { SandboxLimit, SandboxLimits } from '@gantry/contract'

/** Watches a host from outside, where nothing that its program does holds it up. */
interface HostWatch {
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

/** What a process has used, as the kernel says. */
interface ProcessUsage {
  readonly cpuMs: number
  readonly residentBytes: number
}

/** A tick of the kernel's accounts, the same on every Linux. */
const tickMs = 10

/** Undefined where there is no such process, or no such file system. */
export async function usageOf(pid: number): Promise<ProcessUsage | undefined> {
  try {
    const [stat, status] = await Promise.all([
      readFile(`/proc/${pid}/stat`, 'latin1'),
      readFile(`/proc/${pid}/status`, 'latin1'),
    ])
    // The name of the program, in brackets, may hold anything; the fields are counted from behind it.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    const ticks = Number(fields[11]) + Number(fields[12])
    const resident = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0)
    return { cpuMs: ticks * tickMs, residentBytes: resident * 1_024 }
  } catch {
    return undefined
  }
}
