/** Waiters for replies, by the id of the request. */
export interface Waiting<T> {
  /** Rejects if no reply arrives in time, or when the gateway closes. */
  add(id: string, timeoutMs: number): Promise<T>
  /** Resolves the waiter with a reply; false if there is no waiter. */
  settle(id: string, answer: T): boolean
  fail(id: string, error: Error): void
  readonly size: number
  close(): void
}

export function waitingFor<T>(who: string): Waiting<T> {
  const waiting = new Map<string, { resolve(answer: T): void; reject(error: Error): void; timer: NodeJS.Timeout }>()
  const take = (id: string) => {
    const one = waiting.get(id)
    waiting.delete(id)
    clearTimeout(one?.timer)
    return one
  }
  return {
    add: (id, timeoutMs) =>
      new Promise((resolve, reject) => {
        const late = () => take(id)?.reject(new Error(`${who} has no answer to ${id} after ${timeoutMs} ms`))
        waiting.set(id, { resolve, reject, timer: setTimeout(late, timeoutMs) })
      }),
    settle(id, answer) {
      const one = take(id)
      one?.resolve(answer)
      return one !== undefined
    },
    fail: (id, error) => take(id)?.reject(error),
    get size() {
      return waiting.size
    },
    close() {
      for (const id of [...waiting.keys()]) take(id)?.reject(new Error(`${who} was closed`))
    },
  }
}
