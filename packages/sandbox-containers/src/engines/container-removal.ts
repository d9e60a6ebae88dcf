import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { codeOf } from '@gantry/core/internal/files/private-file'

/** How long the engine may take to remove a container; it kills it first. */
const removeMs = 10_000
/** How often what is left is tried again. */
const againMs = 1_000
/** How often a container that may still appear must be found absent. */
const absences = 5
/** How long `close` tries what is left, for an engine that may hang, and how often. */
const lastMs = 5_000
const lastAgainMs = 200
/** More than this are left to the next process that uses the engine. */
const mostLeft = 1_000

/**
 * Removes containers. What the engine did not remove, because it was frozen or being restarted, is tried again in the
 * background until it is gone, so that it does not stay until this process has ended. Nothing here rejects.
 */
export interface Remover {
  /** Whether it is gone; a container that another party removed is gone too. */
  remove(id: string, process?: LocalProcess): Promise<boolean>
  /** Removes a container whose creation was requested and not answered, in case that it appears. */
  expect(name: string): void
  /** Tries what is left for some seconds; the next process that uses the engine removes the rest. */
  close(): Promise<void>
}

export function createRemover(removeOnce: RemoveOnce): Remover {
  const closing = new AbortController()
  /** How often each must still be found absent. */
  const left = new Map<string, number>()
  let retrying: Promise<void> | undefined

  const round = async (mostMs: number): Promise<void> => {
    for (const [id, absent] of [...left]) {
      const state = await removeOnce(id, AbortSignal.timeout(mostMs))
      if (state === 'unanswered') return
      if (state === 'gone' || (state === 'absent' && absent <= 1)) left.delete(id)
      else if (state === 'absent') left.set(id, absent - 1)
    }
  }
  const retryAll = async (): Promise<void> => {
    while (left.size > 0 && !closing.signal.aborted) {
      await pause(againMs, undefined, { signal: closing.signal, ref: false }).catch(() => undefined)
      if (!closing.signal.aborted) await round(removeMs)
    }
    retrying = undefined
  }
  const tryLast = async (): Promise<void> => {
    const until = performance.now() + lastMs
    for (let rest: number = lastMs; left.size > 0 && rest > 0; rest = until - performance.now()) {
      await round(Math.ceil(rest))
      if (left.size > 0) await pause(lastAgainMs)
    }
  }
  const retry = (id: string, absent: number): void => {
    if (closing.signal.aborted || left.size >= mostLeft) return
    left.set(id, absent)
    retrying ??= retryAll()
  }
  return {
    async remove(id, process) {
      // The kernel is faster than the engine, and does it even while the engine hangs.
      process?.kill()
      const state = await removeOnce(id, AbortSignal.timeout(removeMs))
      if (state === 'gone' || state === 'absent') return true
      retry(id, 1)
      return false
    },
    expect: (name) => retry(name, absences),
    async close() {
      closing.abort()
      await retrying
      await tryLast()
    },
  }
}

/** `unanswered`: the engine is unreachable or hangs, so that others need not be tried either. */
export type Removal = 'gone' | 'absent' | 'refused' | 'unanswered'

/** Kills and removes a container, or says why not; never rejects. */
export type RemoveOnce = (id: string, signal: AbortSignal) => Promise<Removal>

/**
 * Whether a process is that of a container, by the name of its control group. Its number is another process's here when
 * the engine has a process namespace of its own.
 */
export function isOfContainer(pid: number, id: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cgroup`, 'latin1').includes(id)
  } catch {
    return false
  }
}

/** The first process of a container on this machine. */
export interface LocalProcess {
  /** Kills it, and with it everything in its container, unless it has ended; false when only the engine may. */
  kill(): boolean
  /** Whether it has ended, and with it everything in its container: the kernel ends a namespace's first process last. */
  hasEnded(): boolean
}

/** Remembers the start time with the number, because the number of a process that has ended is given to another one. */
export function localProcess(pid: number): LocalProcess {
  const start = statusOf(pid)?.start
  const hasEnded = (): boolean => {
    const now = statusOf(pid)
    return now === undefined || now.start !== start || now.isZombie
  }
  return {
    hasEnded,
    kill() {
      if (hasEnded()) return true
      try {
        return process.kill(pid, 'SIGKILL')
      } catch (error) {
        // A process of another user is the engine's to kill.
        return codeOf(error) === 'ESRCH'
      }
    },
  }
}

/** Kills every process of a control group of this machine, in whichever hierarchy it is; one that is absent has none. */
export function killGroup(path: string, groups = '/sys/fs/cgroup'): void {
  const folders = [join(groups, path), ...controllers.map((controller) => join(groups, controller, path))]
  const pids = new Set(folders.flatMap((folder) => linesOf(join(folder, 'cgroup.procs'))).map(Number))
  for (const pid of pids) localProcess(pid).kill()
}

/** Hierarchies of version 1, and where version 2 is mounted beside them. */
const controllers = ['memory', 'pids', 'cpu,cpuacct', 'freezer', 'unified']

function linesOf(file: string): readonly string[] {
  try {
    return readFileSync(file, 'latin1').split('\n').filter(Boolean)
  } catch {
    return []
  }
}

function statusOf(pid: number): { readonly start: string | undefined; readonly isZombie: boolean } | undefined {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    // The program's name is in parentheses and may hold any character.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return { start: fields[19], isZombie: fields[0] === 'Z' || fields[0] === 'X' }
  } catch {
    return undefined
  }
}
