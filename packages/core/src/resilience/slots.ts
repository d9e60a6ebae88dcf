/** Gives a slot back; twice is harmless. */
export type Release = () => void

/** Lets at most a number of holders of one key run at a time; the rest wait. */
export interface Slots {
  /**
   * Resolves with the function that gives the slot back. Tenants take turns, so that none waits behind all that another one
   * has waiting; within a tenant the order is that of arrival.
   * Rejects with the signal's reason when it aborts first; nothing is held then.
   */
  take(key: string, size: number, signal: AbortSignal, tenant?: string): Promise<Release>
  /** The same without a wait: undefined when there is no slot for the tenant now. */
  takeNow(key: string, size: number, tenant?: string): Release | undefined
}

export interface SlotsOptions {
  /**
   * The part of each key's slots that one tenant has at most, once a second tenant has asked for any: what is left is free
   * for others however long the holders take. Work without a tenant takes turns too, and has no such limit. 1 when absent.
   */
  readonly share?: number
}

interface Queue {
  readonly key: string
  size: number
  running: number
  /** By tenant, how many it has; only where there are shares. */
  readonly held: Map<string, number> | undefined
  /** By tenant, whose turn it is first; in the order of arrival, and sets, so that leaving from the middle costs nothing. */
  readonly waiting: Map<string, Set<() => void>>
}

export function createSlots({ share = 1 }: SlotsOptions = {}): Slots {
  const queues = new Map<string, Queue>()
  let first: string | undefined
  /** Whether more than one tenant has asked. */
  let several = false

  const queueOf = (key: string, size: number): Queue => {
    const known = queues.get(key)
    if (known !== undefined) {
      known.size = size
      return known
    }
    const queue = { key, size, running: 0, held: share < 1 ? new Map() : undefined, waiting: new Map() }
    queues.set(key, queue)
    return queue
  }
  const mayHaveMore = ({ held, size }: Queue, tenant: string): boolean =>
    held === undefined || !several || tenant === '' || (held.get(tenant) ?? 0) < Math.max(1, Math.floor(size * share))

  const give = (queue: Queue, tenant: string): Release => {
    queue.running += 1
    queue.held?.set(tenant, (queue.held.get(tenant) ?? 0) + 1)
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      queue.running -= 1
      const left = (queue.held?.get(tenant) ?? 1) - 1
      if (left > 0) queue.held?.set(tenant, left)
      else queue.held?.delete(tenant)
      serve(queue)
      if (queue.running === 0) queues.delete(queue.key)
    }
  }
  /** After it, whatever waits beside a free slot has its share, so that a newcomer passes nobody. */
  const serve = (queue: Queue): void => {
    while (queue.waiting.size > 0 && queue.running < queue.size) {
      const next = nextIn(queue, mayHaveMore)
      if (next === undefined) return
      next()
    }
  }
  const takeNow = (key: string, size: number, tenant = ''): Release | undefined => {
    if (!several && tenant !== '') {
      first ??= tenant
      several = first !== tenant
    }
    const queue = queueOf(key, size)
    return queue.running < size && mayHaveMore(queue, tenant) ? give(queue, tenant) : undefined
  }
  return {
    takeNow,
    take(key, size, signal, tenant = '') {
      if (signal.aborted) return Promise.reject(signal.reason)
      const taken = takeNow(key, size, tenant)
      if (taken !== undefined) return Promise.resolve(taken)
      const queue = queueOf(key, size)
      return new Promise((resolve, reject) => {
        const enter = (): void => {
          signal.removeEventListener('abort', leave)
          resolve(give(queue, tenant))
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
function nextIn(queue: Queue, mayHaveMore: (queue: Queue, tenant: string) => boolean): (() => void) | undefined {
  for (const [tenant, line] of queue.waiting) {
    if (!mayHaveMore(queue, tenant)) continue
    const [next] = line
    queue.waiting.delete(tenant)
    if (next === undefined) return undefined
    line.delete(next)
    if (line.size > 0) queue.waiting.set(tenant, line)
    return next
  }
  return undefined
}

function remove({ waiting }: Queue, tenant: string, one: () => void): void {
  const line = waiting.get(tenant)
  line?.delete(one)
  if (line?.size === 0) waiting.delete(tenant)
}
