/** Lets at most a number of holders of one key run at a time; the rest wait. */
export interface Slots {
  /**
   * Resolves with the function that gives the slot back (twice is harmless). Tenants take turns, so that none waits behind
   * all that another one has waiting; within a tenant the order is that of arrival.
   * Rejects with the signal's reason when it aborts first; nothing is held then.
   */
  take(key: string, size: number, signal: AbortSignal, tenant?: string): Promise<() => void>
}

interface Queue {
  running: number
  /** By tenant, whose turn it is first; in the order of arrival, and sets, so that leaving from the middle costs nothing. */
  readonly waiting: Map<string, Set<() => void>>
}

export function createSlots(): Slots {
  const queues = new Map<string, Queue>()

  const release = (key: string, queue: Queue): void => {
    const next = nextIn(queue)
    if (next === undefined) queue.running -= 1
    else next()
    if (queue.running === 0) queues.delete(key)
  }
  const once = (key: string, queue: Queue): (() => void) => {
    let held = true
    return () => {
      if (held) release(key, queue)
      held = false
    }
  }
  return {
    take(key, size, signal, tenant = '') {
      if (signal.aborted) return Promise.reject(signal.reason)
      const queue = queues.get(key) ?? { running: 0, waiting: new Map() }
      queues.set(key, queue)
      if (queue.running < size) {
        queue.running += 1
        return Promise.resolve(once(key, queue))
      }
      return new Promise((resolve, reject) => {
        const enter = (): void => {
          signal.removeEventListener('abort', leave)
          resolve(once(key, queue))
        }
        const leave = (): void => {
          remove(queue, tenant, enter)
          reject(signal.reason)
        }
        const line = queue.waiting.get(tenant) ?? new Set()
        queue.waiting.set(tenant, line.add(enter))
        signal.addEventListener('abort', leave, { once: true })
      })
    },
  }
}

/** Takes the first of the tenant whose turn it is out of the queue; that tenant is the last from then on. */
function nextIn(queue: Queue): (() => void) | undefined {
  const [turn] = queue.waiting
  if (turn === undefined) return undefined
  const [tenant, line] = turn
  const [next] = line
  queue.waiting.delete(tenant)
  if (next === undefined) return undefined
  line.delete(next)
  if (line.size > 0) queue.waiting.set(tenant, line)
  return next
}

function remove({ waiting }: Queue, tenant: string, one: () => void): void {
  const line = waiting.get(tenant)
  line?.delete(one)
  if (line?.size === 0) waiting.delete(tenant)
}
