/** Lets so many pieces of work run at a time; others wait for their turn, in their order. */
export interface Slots {
  use<T>(work: () => Promise<T>): Promise<T>
}

export function createSlots(most: number): Slots {
  const waiting: (() => void)[] = []
  let free = most
  const leave = (): void => {
    const next = waiting.shift()
    if (next === undefined) free += 1
    else next()
  }
  return {
    async use(work) {
      if (free > 0) free -= 1
      else await new Promise<void>((resolve) => waiting.push(resolve))
      try {
        return await work()
      } finally {
        leave()
      }
    },
  }
}
