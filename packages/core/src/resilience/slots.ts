/** Lets at most a number of holders of one key run at a time; the rest wait in order. */
export interface Slots {
  /**
   * Resolves with the function that gives the slot back (twice is harmless).
   * Rejects with the signal's reason when it aborts first; nothing is held then.
   */
  take(key: string, size: number, signal: AbortSignal): Promise<() => void>
}

interface Queue {
  running: number
  /** In the order of arrival; a set, so that leaving from its middle costs nothing. */
  readonly waiting: Set<() => void>
}

export function createSlots(): Slots {
  const queues = new Map<string, Queue>()

  const release = (key: string, queue: Queue): void => {
    const [next] = queue.waiting
    if (next === undefined) queue.running -= 1
    else {
      queue.waiting.delete(next)
      next()
    }
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
    take(key, size, signal) {
      if (signal.aborted) return Promise.reject(signal.reason)
      const queue = queues.get(key) ?? { running: 0, waiting: new Set() }
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
          queue.waiting.delete(enter)
          reject(signal.reason)
        }
        queue.waiting.add(enter)
        signal.addEventListener('abort', leave, { once: true })
      })
    },
  }
}
