import { readdirSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'

/** Over this time the processor time of idle processes is counted. */
const watchMs = 10_000
/** The kernel counts the processor time of processes in hundredths of a second. */
const tickMs = 10

/**
 * What processes use that some work starts: their proportional set size, and their processor time in a minute. Counted are
 * children of this process and what an engine has started for its containers, which its folder is known by.
 */
export async function idleFigures(
  engineFolder: string,
  start: () => Promise<void>,
): Promise<{ readonly bytes: number; readonly cpuMs: number }> {
  const before = new Set(pids())
  await start()
  const own = pids().filter((pid) => !before.has(pid) && isOurs(pid, basename(engineFolder)))
  const bytes = own.reduce((sum, pid) => sum + proportionalBytes(pid), 0)
  const ticks = (): number => own.reduce((sum, pid) => sum + (statOf(pid)?.ticks ?? 0), 0)
  const first = ticks()
  await delay(watchMs)
  return { bytes, cpuMs: ((ticks() - first) * tickMs * 60_000) / watchMs }
}

function pids(): string[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name))
}

function isOurs(pid: string, engine: string): boolean {
  if (textOf(pid, 'cmdline').includes(engine) || textOf(pid, 'cgroup').includes(engine)) return true
  for (let at = statOf(pid)?.parent; at !== undefined && at > 1; at = statOf(String(at))?.parent) {
    if (at === process.pid) return true
  }
  return false
}

function statOf(pid: string): { readonly parent: number; readonly ticks: number } | undefined {
  const text = textOf(pid, 'stat')
  if (text === '') return undefined
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return { parent: Number(fields[1]), ticks: Number(fields[11]) + Number(fields[12]) }
}

function proportionalBytes(pid: string): number {
  return Number(/^Pss:\s+(\d+) kB$/m.exec(textOf(pid, 'smaps_rollup'))?.[1] ?? 0) * 1_024
}

/** A file of a process; empty when the process has ended. */
function textOf(pid: string, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}
