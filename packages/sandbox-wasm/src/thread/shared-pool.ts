import { lazily } from '../guest/lazily.ts'
import { type CompiledQuickjs, compileQuickjs } from '../quickjs/engine.ts'
import { closedError, createFairShare } from './fair-share.ts'
import type { Thread } from './thread.ts'
import { createThreadPool, type ThreadPool } from './thread-pool.ts'

/** Lets runtimes use the same threads, which start once instead of once for each. */
export interface ThreadSharing {
  /**
   * Threads of which at most so many are this member's at a time, those it owns aside, whatever others use; its tenants
   * take turns. `close` kills those that it still has; the last member's ends all of them.
   */
  join(most: number, quickjs: CompiledQuickjs): ThreadPool
}

interface Pool {
  readonly threads: ThreadPool
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
    // A runtime that joins from here on gets a new pool.
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
  const turns = createFairShare(most)
  /** Each with what ends its turn. */
  const shared = new Map<Thread, () => void>()
  const owned = new Set<Thread>()
  let closing: Promise<void> | undefined

  const end = async (): Promise<void> => {
    turns.close()
    const held = [...shared.keys(), ...owned]
    await Promise.all(held.map((thread) => thread.kill()))
    for (const thread of shared.keys()) threads.give(thread)
    await leave()
  }
  return {
    async take(signal, tenant) {
      const endTurn = await turns.take(signal, tenant)
      try {
        const thread = await threads.take(signal)
        if (closing !== undefined) {
          threads.give(thread)
          throw closedError()
        }
        shared.set(thread, endTurn)
        return thread
      } catch (error) {
        endTurn()
        throw error
      }
    },
    give(thread) {
      const endTurn = shared.get(thread)
      if (endTurn === undefined) return
      shared.delete(thread)
      threads.give(thread)
      endTurn()
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
 * What the wasm runtimes of one process share: the only state here that outlives a runtime. It holds nothing of any
 * program or configuration, so that an executor finds the same as in a process of its own, only sooner:
 * - `quickjs`: the compiled interpreter, made once; every thread gets the same code.
 * - `threads`: threads that have started, for as long as a runtime is open; each runtime has as many as it may have alone.
 * - `held`: by the versions of the interpreters, how fast QuickJS started when it held against every attack of its self-test.
 */
export const processWide = {
  quickjs: lazily(compileQuickjs),
  threads: createThreadSharing(),
  held: new Map<string, number>(),
} as const
