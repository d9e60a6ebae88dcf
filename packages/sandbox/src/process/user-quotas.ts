import { readdirSync, readFileSync } from 'node:fs'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import type { Refusal } from '@gantry/core/internal/runtimes/runtime'
import { unavailable } from './bubblewrap.ts'

/** The part of its uid's kernel quotas that one sandbox may use. */
export interface QuotaShare {
  /** Epoll registrations over the life of the sandbox. */
  readonly epollWatches: number
  /** Queued signals at a time. */
  readonly pendingSignals: number
  /** Descriptors of one process, and in-flight descriptors of all programs of the user together. */
  readonly openFiles: number
  /** Returns the share; call it once. */
  release(): void
}

/**
 * Quotas that the kernel counts by uid, for sandboxes that share the uid of this process: what they use is missing here,
 * and libuv aborts when `epoll_ctl` fails. All sandboxes together get half of each. The seccomp filter refuses what
 * is counted by uid and needed by no program: inotify and fanotify, message queues, keys, user namespaces, locked and
 * huge shared memory, and larger pipes.
 */
export interface UserQuotas {
  /**
   * Throws RATE_LIMITED when the running sandboxes leave too little for one more: temporary, and no fault of the sandbox,
   * so it opens no circuit and makes no dead letter. Throws SANDBOX_INIT_FAILED when it does not fit without any either.
   */
  take(limits: SandboxLimits): QuotaShare
  /** Why such a sandbox never fits; undefined when it does. */
  refuses(limits: SandboxLimits): Refusal | undefined
}

/** The quotas of this uid; Infinity where the kernel sets none. */
export interface QuotaFigures {
  readonly epollWatches: number
  readonly processes: number
  readonly pendingSignals: number
  /** Of this process; also the limit of in-flight descriptors when it passes one to another process. */
  readonly openFiles: number
  /** Pipe pages above which no pipe can be created. */
  readonly pipePages: number
}

/** A sandbox gets this fraction of the remaining registrations, so that few have plenty and many have some. */
const partOfWatches = 64
const leastWatches = 256
const mostFiles = 1_024
const leastFiles = 256
const mostSignals = 1_024
const leastSignals = 64
/** A sandbox may end at any time; a worker retries until the deadline of the call. */
const retryAfterMs = 250
/** Processes in addition to the programs: supervisor, bubblewrap twice, init and relay, and a margin of the kernel's count. */
const besidePrograms = 24

/**
 * The quotas of this machine. Throws RUNTIME_UNAVAILABLE where one can be neither shared nor refused.
 * `planners` counts the processes of this uid that create sandboxes and divide the half between them.
 */
export function createUserQuotas(planners: () => number, figures: QuotaFigures = readFigures()): UserQuotas {
  if (figures.pipePages !== Number.POSITIVE_INFINITY) {
    throw unavailable(
      'Programs of the same uid could use up the pipes of this process (fs.pipe-user-pages-hard is set).',
      'Set fs.pipe-user-pages-hard to 0, or start Gantry as root, which gives each sandbox a uid of its own.',
    )
  }
  const used = { epollWatches: 0, processes: 0, pendingSignals: 0 }
  const left = (name: keyof typeof used): number => figures[name] / 2 / Math.max(1, planners()) - used[name]
  // A quarter, because a program can exceed it by the descriptors of one message.
  const openFiles = Math.min(mostFiles, Math.max(leastFiles, Math.floor(figures.openFiles / 4)))
  const signals = Math.min(mostSignals, Math.max(leastSignals, Math.floor(figures.pendingSignals / 1_024)))
  return {
    take({ pids }) {
      const share = {
        epollWatches: watchesOf(left('epollWatches')),
        processes: pids + besidePrograms,
        pendingSignals: signals,
      }
      const names = Object.keys(share) as (keyof typeof share)[]
      const short = names.filter((name) => share[name] > left(name))
      if (short.length > 0) {
        const message = `The sandboxes of this user leave too few ${short.join(', ')} for another one.`
        if (used.processes === 0) throw new ToolError('SANDBOX_INIT_FAILED', message, { details: { quotas: short } })
        const details = { quotas: short, retryAfterMs }
        throw new ToolError('RATE_LIMITED', `${message} Try again when one has ended.`, { details })
      }
      for (const name of names) used[name] += share[name]
      return {
        ...share,
        openFiles,
        release() {
          for (const name of names) used[name] -= share[name]
        },
      }
    },
    refuses({ pids }) {
      if (pids + besidePrograms <= figures.processes / 2) return undefined
      return {
        reason: `A sandbox of ${pids} processes would take more than half of those that this user may have (${figures.processes}).`,
        remedy: 'Ask for fewer `pids`, or raise `ulimit -u`.',
      }
    },
  }
}

function watchesOf(left: number): number {
  return Math.max(leastWatches, Math.min(Number.MAX_SAFE_INTEGER, Math.floor(left / partOfWatches)))
}

/** Number of processes of this uid that have a folder under the sandbox root. */
export function countPlanners(folder: string): number {
  return readdirSync(folder).filter((entry) => entry.startsWith('run-')).length
}

function readFigures(): QuotaFigures {
  const limits = readFileSync('/proc/self/limits', 'latin1')
  const soft = (name: string): number => {
    const value = limits
      .split('\n')
      .find((line) => line.startsWith(name))
      ?.slice(name.length)
      .trim()
      .split(' ')[0]
    return numberOf(value ?? '')
  }
  return {
    epollWatches: setting('/proc/sys/fs/epoll/max_user_watches'),
    processes: soft('Max processes'),
    pendingSignals: soft('Max pending signals'),
    openFiles: soft('Max open files'),
    pipePages: setting('/proc/sys/fs/pipe-user-pages-hard') || Number.POSITIVE_INFINITY,
  }
}

function setting(file: string): number {
  return numberOf(readFileSync(file, 'latin1').trim())
}

function numberOf(text: string): number {
  return /^\d{1,19}$/.test(text) ? Number(text) : Number.POSITIVE_INFINITY
}
