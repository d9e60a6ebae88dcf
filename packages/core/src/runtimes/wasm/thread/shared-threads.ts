import { ToolError } from '@gantry/contract'
import type { CompiledQuickjs } from '../quickjs/compile.ts'
import type { Thread } from './thread.ts'
import { createThreads, type Threads } from './threads.ts'

/** Lets runtimes use the same threads, which start once instead of once for each. */
export interface ThreadSharing {
  /**
   * Threads of which at most so many are this member's at a time, those it owns aside, whatever others use. `close` kills
   * those that it still has; the last member's ends all of them.
   */
  join(most: number, quickjs: CompiledQuickjs): Threads
}

interface Pool {
  readonly threads: Threads
  /** As many as all members together may have. */
  most: number
  members: number
}

export function createThreadSharing(): ThreadSharing {
  let pool: Pool | undefined
  const enter = (most: number, quickjs: CompiledQuickjs): Pool => {
    const joined = pool ?? openPool(quickjs)
    joined.most += most
    joined.members += 1
    pool = joined
    return joined
  }
  const leave = async (left: Pool, most: number): Promise<void> => {
    left.most -= most
    left.members -= 1
    if (left.members > 0) return
    // Whoever joins from here on has threads of its own.
    if (pool === left) pool = undefined
    await left.threads.close()
  }
  return {
    join(most, quickjs) {
      const joined = enter(most, quickjs)
      return memberOf(joined.threads, most, () => leave(joined, most))
    },
  }
}

function openPool(quickjs: CompiledQuickjs): Pool {
  const pool: Pool = { threads: createThreads(() => pool.most, quickjs), most: 0, members: 0 }
  return pool
}

function memberOf(threads: Threads, most: number, leave: () => Promise<void>): Threads {
  const shared = new Set<Thread>()
  const owned = new Set<Thread>()
  const waiting = new Set<() => void>()
  let taking = 0
  let closing: Promise<void> | undefined

  const wake = (): void => {
    const [next] = waiting
    if (next === undefined) return
    waiting.delete(next)
    next()
  }
  const room = async (signal: AbortSignal): Promise<void> => {
    while (closing === undefined && shared.size + taking >= most) await turn(waiting, signal)
    if (closing !== undefined) throw closedError()
  }
  const end = async (): Promise<void> => {
    for (const next of waiting) next()
    waiting.clear()
    const held = [...shared, ...owned]
    await Promise.all(held.map((thread) => thread.kill()))
    for (const thread of shared) threads.give(thread)
    await leave()
  }
  return {
    async take(signal) {
      signal.throwIfAborted()
      await room(signal)
      taking += 1
      try {
        const thread = await threads.take(signal)
        if (closing !== undefined) {
          threads.give(thread)
          throw closedError()
        }
        shared.add(thread)
        return thread
      } finally {
        taking -= 1
        if (shared.size + taking < most) wake()
      }
    },
    give(thread) {
      if (!shared.delete(thread)) return
      threads.give(thread)
      wake()
    },
    async own(signal) {
      signal.throwIfAborted()
      if (closing !== undefined) throw closedError()
      const thread = await threads.own(signal)
      if (closing !== undefined) {
        await thread.kill()
        throw closedError()
      }
      owned.add(thread)
      void thread.ended.then(() => owned.delete(thread))
      return thread
    },
    warm: threads.warm,
    close() {
      closing ??= end()
      return closing
    },
  }
}

function closedError(): ToolError {
  return new ToolError('SANDBOX_INIT_FAILED', 'The runtime is closed.')
}

/** Waits until a thread is given back; rejects with the signal's reason. */
async function turn(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const abort = (): void => {
    waiting.delete(resolve)
    reject(signal.reason)
  }
  waiting.add(resolve)
  signal.addEventListener('abort', abort, { once: true })
  try {
    await promise
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
