import { availableParallelism } from 'node:os'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { CompiledQuickjs } from '../quickjs/engine.ts'
import { closedError } from './fair-share.ts'
import { startThread, type Thread } from './thread.ts'

/** Threads that are kept for the next run. A thread has one program at a time, and none of a program is left in it. */
export interface ThreadPool {
  /** An idle thread, a new one, or, when there are enough, the next that becomes free; for a tenant when its turn comes. */
  take(signal: AbortSignal, tenant?: string): Promise<Thread>
  /** Gives a thread back; one that is not alive is replaced when it is needed. */
  give(thread: Thread): void
  /** A thread for one caller alone, which kills it. */
  own(signal: AbortSignal): Promise<Thread>
  /** Starts a thread if there is none, so that the first run finds one. */
  warm(): void
  /** Kills them all; after it `take` rejects. */
  close(): Promise<void>
}

/** Idle ones are ended after this time; starting one takes about a tenth of a second. */
const idleMs = 60_000
/**
 * Short programs come through sooner with a thread for each processor than with more of them; only those who wait this
 * long, behind long ones, get others besides, one at a time.
 */
const patienceMs = 100
/** One that was given back less than this ago still prepares itself; a caller that comes so soon is served better by two threads in turn. */
const preparingMs = 2
const processors = availableParallelism()

/** `most` may change while they are used. */
export function createThreadPool(most: () => number, quickjs?: CompiledQuickjs): ThreadPool {
  const all = new Set<Thread>()
  /** The one that has been idle for longest is the first. */
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
    // Of those that have prepared themselves the last one, whose memory is still at hand; else the one that is nearest to it.
    const now = performance.now()
    const prepared = [...idle].findLast(([, { since }]) => now - since >= preparingMs)
    const [thread, rest] = prepared ?? [...idle][0] ?? []
    if (thread === undefined) return undefined
    clearTimeout(rest?.timer)
    idle.delete(thread)
    if (prepared === undefined) startAhead()
    return thread
  }
  /** One more for the next, as long as there are processors, so that no call waits for its start. */
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
      const given = await turn(waiting, signal, () => shared < most() && performance.now() - lastStart >= patienceMs)
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
      // A thread that is still starting when its taker goes is good for the next one.
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

/** Waits for a thread that is given back; undefined means that a new one may be started. */
async function turn(
  waiting: Set<(thread: Thread | undefined) => void>,
  signal: AbortSignal,
  isRoom: () => boolean,
): Promise<Thread | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<Thread | undefined>()
  const abort = (): void => {
    waiting.delete(resolve)
    reject(signal.reason)
  }
  const lookForRoom = (): void => {
    if (!isRoom() || !waiting.delete(resolve)) return
    resolve(undefined)
  }
  waiting.add(resolve)
  const timer = setInterval(lookForRoom, patienceMs)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await promise
  } finally {
    clearInterval(timer)
    signal.removeEventListener('abort', abort)
  }
}
