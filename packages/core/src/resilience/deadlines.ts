/** An item with a deadline. */
export interface Waiter {
  expire(): void
  /** Owned by Deadlines while the waiter waits; undefined before. */
  wait: Wait | undefined
}

/** The queue of a waiter, its deadline and its neighbours. */
export interface Wait {
  readonly queue: Queue
  readonly waiter: Waiter
  readonly end: number
  before: Wait | undefined
  behind: Wait | undefined
}

/** All waits with one timeout, by deadline; a linked list, because a set costs ten times as much per add and delete. */
interface Queue {
  readonly ms: number
  first: Wait | undefined
  last: Wait | undefined
  timer: NodeJS.Timeout
}

/**
 * Expires waiters at their deadlines. Waits with the same timeout end in the order of their start, so each timeout has
 * one timer for all its waiters, set for the first; a timer per wait would cost more than a short wait.
 * - Adding a waiter again replaces its deadline.
 * - Waiters keep the process alive.
 */
export interface Deadlines<W extends Waiter> {
  /** The timeout runs from `start`, a reading of the same clock, or from now. */
  add(waiter: W, ms: number, start?: number): void
  delete(waiter: W): void
  /** All current waiters. */
  waiters(): W[]
}

/** Beyond this number of timeouts, a queue without waiters is dropped with its timer. */
const mostIdle = 64
/** Node timers overflow beyond this and fire at once. */
const longestMs = 2_147_483_647
/** Timers fire up to this much early. */
const earlyMs = 1

export function createDeadlines<W extends Waiter>(now: () => number = () => performance.now()): Deadlines<W> {
  const queues = new Map<number, Queue>()

  const fire = (queue: Queue): void => {
    const time = now()
    for (let wait = queue.first; wait !== undefined; wait = queue.first) {
      if (wait.end > time + earlyMs) {
        queue.timer = setTimeout(fire, Math.ceil(wait.end - time), queue)
        return
      }
      unlink(wait)
      wait.waiter.expire()
    }
    queues.delete(queue.ms)
  }
  const open = (ms: number): Queue => {
    const queue: Queue = { ms, first: undefined, last: undefined, timer: setTimeout(() => fire(queue), ms) }
    queues.set(ms, queue)
    return queue
  }
  const remove = ({ wait }: W): void => {
    if (wait === undefined) return
    const { queue } = wait
    unlink(wait)
    if (queue.first !== undefined) return
    queue.timer.unref()
    if (queues.size <= mostIdle) return
    clearTimeout(queue.timer)
    queues.delete(queue.ms)
  }
  return {
    add(waiter, asked, start = now()) {
      remove(waiter)
      const ms = Math.max(1, Math.min(asked, longestMs))
      const queue = queues.get(ms) ?? open(ms)
      const { last } = queue
      if (last === undefined) queue.timer.ref()
      const end = Math.max(start + ms, last?.end ?? 0)
      const wait: Wait = { queue, waiter, end, before: last, behind: undefined }
      if (last === undefined) queue.first = wait
      else last.behind = wait
      queue.last = wait
      waiter.wait = wait
    },
    delete: remove,
    waiters: () => [...queues.values()].flatMap((queue) => [...waitersOf(queue)] as W[]),
  }
}

function unlink(wait: Wait): void {
  const { queue, before, behind } = wait
  if (before === undefined) queue.first = behind
  else before.behind = behind
  if (behind === undefined) queue.last = before
  else behind.before = before
  wait.waiter.wait = undefined
}

function* waitersOf(queue: Queue): Generator<Waiter> {
  for (let wait = queue.first; wait !== undefined; wait = wait.behind) yield wait.waiter
}
