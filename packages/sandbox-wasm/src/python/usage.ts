import { readFile } from 'node:fs/promises'

/** What a process has used, as the kernel says. */
export interface ProcessUsage {
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
