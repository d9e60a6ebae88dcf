/** Something that waits and can be told that its time is over. */
export interface Waiter {
  expire(): void
  /** Belongs to Deadlines while it waits; starts out undefined. */
  wait: Wait | undefined
}

/** Where a waiter waits, and until when. */
export interface Wait {
  readonly queue: Queue
  readonly end: number
}

/** All waits of one length, in the order of their ends. */
interface Queue {
  readonly ms: number
  readonly waiters: Set<Waiter>
  timer: NodeJS.Timeout
}

/**
 * Tells waiters when their time is over. Waits of the same length end in the order in which they began, so each length
 * has one timer for all its waiters, set for the first of them; a timer for each wait would cost more than a short wait.
 * - A waiter waits once at a time: adding it again moves it.
 * - Waiters keep the process alive; without them it may end.
 */
export interface Deadlines<W extends Waiter> {
  add(waiter: W, ms: number): void
  delete(waiter: W): void
  /** Everything that waits now. */
  waiters(): W[]
}

/** Beyond this number of lengths, one that nobody waits for gives its timer back. */
const mostIdle = 64
/** Node's timers overflow beyond this, and fire at once. */
const longestMs = 2_147_483_647
/** Timers fire up to this much early. */
const earlyMs = 1

export function createDeadlines<W extends Waiter>(now: () => number = () => performance.now()): Deadlines<W> {
  const queues = new Map<number, Queue>()

  const fire = (queue: Queue): void => {
    const time = now()
    for (const waiter of queue.waiters) {
      const end = waiter.wait?.end ?? 0
      if (end > time + earlyMs) {
        queue.timer = setTimeout(fire, Math.ceil(end - time), queue)
        return
      }
      queue.waiters.delete(waiter)
      waiter.wait = undefined
      waiter.expire()
    }
    queues.delete(queue.ms)
  }
  const open = (ms: number): Queue => {
    const queue: Queue = { ms, waiters: new Set(), timer: setTimeout(() => fire(queue), ms) }
    queues.set(ms, queue)
    return queue
  }
  const remove = (waiter: W): void => {
    const queue = waiter.wait?.queue
    if (queue === undefined) return
    waiter.wait = undefined
    queue.waiters.delete(waiter)
    if (queue.waiters.size > 0) return
    queue.timer.unref()
    if (queues.size <= mostIdle) return
    clearTimeout(queue.timer)
    queues.delete(queue.ms)
  }
  return {
    add(waiter, asked) {
      remove(waiter)
      const ms = Math.max(1, Math.min(asked, longestMs))
      const queue = queues.get(ms) ?? open(ms)
      if (queue.waiters.size === 0) queue.timer.ref()
      waiter.wait = { queue, end: now() + ms }
      queue.waiters.add(waiter)
    },
    delete: remove,
    waiters: () => [...queues.values()].flatMap(({ waiters }) => [...waiters] as W[]),
  }
}
