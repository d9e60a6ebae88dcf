import { availableParallelism } from 'node:os'
import { onAbort, unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { CompiledQuickjs } from '../quickjs/engine.ts'
import { closedError } from './fair-share.ts'
import { startThread, type Thread } from './thread.ts'

/** Threads that are reused between runs. A thread runs one program at a time and keeps no state of it. */
export interface ThreadPool {
  /** An idle thread, a new one or, at the limit, the next that becomes free; tenants have fair shares. */
  take(signal: AbortSignal, tenant?: string): Promise<Thread>
  /** Returns a thread; a dead one is replaced when needed. */
  give(thread: Thread): void
  /** A thread for one caller alone, which must kill it. */
  own(signal: AbortSignal): Promise<Thread>
  /** Starts a thread if there is none, so that the first run finds it ready. */
  warm(): void
  /** Kills all threads; `take` rejects afterwards. */
  close(): Promise<void>
}

/** Idle threads end after this time; starting one takes about a tenth of a second. */
const idleMs = 60_000
/**
 * Short programs finish sooner with one thread per processor; only a caller that has waited this long behind long
 * programs gets a further thread, one at a time.
 */
const patienceMs = 100
/**
 * A thread that was returned less than this ago is still preparing; for a caller that comes so soon, alternating between
 * two threads is faster.
 */
const preparingMs = 2
const processors = availableParallelism()

/** `most` may change over time. */
export function createThreadPool(most: () => number, quickjs?: CompiledQuickjs): ThreadPool {
  const all = new Set<Thread>()
  /** Least recently used first. */
  const idle = new Map<Thread, { readonly timer: NodeJS.Timeout; readonly since: number }>()
  const waiting = new Set<(thread: Thread | undefined) => void>()
  let [shared, lastStart] = [0, 0]
  let closed = false

  const start = (): Thread => {
    lastStart = performance.now()
    const thread = startThread(quickjs)
    all.add(thread)
    void thread.ended.then(() => all.delete(thread))
    return thread
  }
  const rest = (thread: Thread): void => {
    const timer = setTimeout(() => {
      idle.delete(thread)
      leave(thread)
    }, idleMs)
    idle.set(thread, { timer: timer.unref(), since: performance.now() })
  }
  const leave = (thread: Thread): void => {
    shared -= 1
    void thread.kill()
  }
  const takeIdle = (): Thread | undefined => {
    for (const [thread, { timer }] of idle) {
      if (thread.alive) continue
      clearTimeout(timer)
      idle.delete(thread)
      leave(thread)
    }
    // The most recently used of the prepared threads, whose memory is still cached; else the one closest to ready.
    const now = performance.now()
    const prepared = [...idle].findLast(([, { since }]) => now - since >= preparingMs)
    const [thread, rest] = prepared ?? [...idle][0] ?? []
    if (thread === undefined) return undefined
    clearTimeout(rest?.timer)
    idle.delete(thread)
    if (prepared === undefined) startAhead()
    return thread
  }
  /** Starts one more thread for the next run, up to the number of processors, so that no call waits for a start. */
  const startAhead = (): void => {
    if (closed || shared >= Math.min(most(), processors)) return
    shared += 1
    const thread = start()
    void thread.practised.then(() => give(thread))
  }
  const takeAny = async (signal: AbortSignal): Promise<Thread> => {
    const ready = takeIdle()
    if (ready !== undefined) return ready
    if (shared >= Math.min(most(), processors)) {
      const given = await waitForThread(
        waiting,
        signal,
        () => shared < most() && performance.now() - lastStart >= patienceMs,
      )
      if (given !== undefined) return given
    }
    if (closed) throw closedError()
    shared += 1
    return start()
  }
  const started = async (thread: Thread, signal: AbortSignal, drop: () => void): Promise<Thread> => {
    try {
      await unlessAborted(thread.ready, signal)
      return thread
    } catch (error) {
      drop()
      throw error
    }
  }
  const give = (thread: Thread): void => {
    const [next] = waiting
    if (next !== undefined) waiting.delete(next)
    const usable = thread.alive && !closed
    if (!usable) leave(thread)
    if (next !== undefined) next(usable ? thread : undefined)
    else if (usable) rest(thread)
  }
  return {
    async take(signal) {
      signal.throwIfAborted()
      if (closed) throw closedError()
      const thread = await takeAny(signal)
      // A thread that is still starting when its taker aborts is returned to the pool.
      return await started(thread, signal, () => give(thread))
    },
    give,
    async own(signal) {
      signal.throwIfAborted()
      if (closed) throw closedError()
      const thread = start()
      return await started(thread, signal, () => void thread.kill())
    },
    warm() {
      if (closed || shared > 0) return
      shared += 1
      rest(start())
    },
    async close() {
      closed = true
      for (const { timer } of idle.values()) clearTimeout(timer)
      idle.clear()
      for (const wake of waiting) wake(undefined)
      waiting.clear()
      await Promise.all([...all].map((thread) => thread.kill()))
    },
  }
}

/** Waits for a returned thread; undefined means that a new one may be started. */
async function waitForThread(
  waiting: Set<(thread: Thread | undefined) => void>,
  signal: AbortSignal,
  isRoom: () => boolean,
): Promise<Thread | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Thread | undefined>()
  const lookForRoom = (): void => {
    if (!isRoom() || !waiting.delete(resolve)) return
    resolve(undefined)
  }
  waiting.add(resolve)
  const timer = setInterval(lookForRoom, patienceMs)
  const leave = onAbort(signal, () => {
    waiting.delete(resolve)
    reject(signal.reason)
  })
  try {
    return await promise
  } finally {
    clearInterval(timer)
    leave()
  }
}
