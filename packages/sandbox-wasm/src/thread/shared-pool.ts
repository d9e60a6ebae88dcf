import { lazily } from '../guest/lazily.ts'
import { type CompiledQuickjs, compileQuickjs } from '../quickjs/engine.ts'
import { closedError, createFairShare } from './fair-share.ts'
import type { Thread } from './thread.ts'
import { createThreadPool, type ThreadPool } from './thread-pool.ts'

/** Lets runtimes share threads, which then start once instead of once per runtime. */
export interface ThreadSharing {
  /**
   * Adds a member that holds at most `most` threads at a time, not counting those it owns, whatever other members use; its
   * tenants have fair shares. Its `close` kills the threads it holds; that of the last member ends all of them.
   */
  join(most: number, quickjs: CompiledQuickjs): ThreadPool
}

interface Pool {
  readonly threads: ThreadPool
  /** Sum of the limits of all members. */
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
    // A runtime that joins later gets a new pool.
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
  const pool: Pool = { threads: createThreadPool(() => pool.most, quickjs), most: 0, members: 0 }
  return pool
}

function memberOf(threads: ThreadPool, most: number, leave: () => Promise<void>): ThreadPool {
  const fairShare = createFairShare(most)
  /** Each thread with the function that releases its slot. */
  const shared = new Map<Thread, () => void>()
  const owned = new Set<Thread>()
  let closing: Promise<void> | undefined

  const end = async (): Promise<void> => {
    fairShare.close()
    const held = [...shared.keys(), ...owned]
    await Promise.all(held.map((thread) => thread.kill()))
    for (const thread of shared.keys()) threads.give(thread)
    await leave()
  }
  return {
    async take(signal, tenant) {
      const releaseSlot = await fairShare.take(signal, tenant)
      try {
        const thread = await threads.take(signal)
        if (closing !== undefined) {
          threads.give(thread)
          throw closedError()
        }
        shared.set(thread, releaseSlot)
        return thread
      } catch (error) {
        releaseSlot()
        throw error
      }
    },
    give(thread) {
      const releaseSlot = shared.get(thread)
      if (releaseSlot === undefined) return
      shared.delete(thread)
      threads.give(thread)
      releaseSlot()
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

/**
 * The state that the wasm runtimes of one process share, and the only state here that outlives a runtime. It contains
 * nothing of a program or configuration, so that an executor behaves as in its own process, only faster:
 * - `quickjs`: the compiled interpreter, created once; every thread gets the same code.
 * - `threads`: started threads, while a runtime is open; each runtime keeps its own thread limit.
 * - `held`: by interpreter versions, the start time of QuickJS when it passed its self-test.
 */
export const processWide = {
  quickjs: lazily(compileQuickjs),
  threads: createThreadSharing(),
  held: new Map<string, number>(),
} as const
