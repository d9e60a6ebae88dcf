/** Runs work with a bounded number in flight; the rest waits in order. Waiting work checks its own signal once it starts. */
export interface Slots {
  use<T>(work: () => Promise<T>): Promise<T>
}

export function createSlots(count: number): Slots {
  let free = count
  const waiting: (() => void)[] = []
  return {
    async use(work) {
      if (free > 0) free -= 1
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await work()
      } finally {
        const next = waiting.shift()
        if (next === undefined) free += 1
        else next()
      }
    },
  }
}

/** Takes indexes in order, a few at a time, until all are done or `stopped` says so. `work` must not reject. */
export async function eachBounded(
  count: number,
  concurrency: number,
  stopped: () => boolean,
  work: (index: number) => Promise<void>,
): Promise<void> {
  let next = 0
  const lane = async (): Promise<void> => {
    while (next < count && !stopped()) await work(next++)
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, count) }, lane))
}
