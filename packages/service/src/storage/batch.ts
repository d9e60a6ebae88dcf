/** Does for one item what a store does for many. */
export interface Batch<Item, Answer> {
  /** Resolves with the answer to this item; rejects when the whole batch failed. */
  add(item: Item): Promise<Answer>
  /** Items that wait or are being done. */
  readonly size: number
}

export interface BatchOptions {
  readonly most?: number
  /** Batches that are done at a time. */
  readonly atOnce?: number
  /** Runs a function when what is going on now is over. */
  readonly soon?: (work: () => void) => unknown
  /** The same for the first item after a rest, which waits for less. */
  readonly sooner?: (work: () => void) => unknown
}

/**
 * Gathers items while the store is busy with those before, so that a statement costs each of them little: one item
 * alone goes at once, and under load a batch is as large as what came in while the last one was committed.
 * `work` answers in the order of the items.
 */
export function createBatch<Item, Answer>(
  work: (items: readonly Item[]) => Promise<readonly Answer[]>,
  { most = 500, atOnce = 1, soon = setImmediate, sooner = queueMicrotask }: BatchOptions = {},
): Batch<Item, Answer> {
  let waiting: { readonly item: Item; readonly done: PromiseWithResolvers<Answer> }[] = []
  let running = 0
  let inHand = 0
  let scheduled = false

  const flush = async (): Promise<void> => {
    const taken = waiting.slice(0, most)
    waiting = waiting.slice(most)
    running += 1
    inHand += taken.length
    try {
      const answers = await work(taken.map(({ item }) => item))
      taken.forEach(({ done }, index) => {
        done.resolve(answers[index] as Answer)
      })
    } catch (error) {
      for (const { done } of taken) done.reject(error)
    } finally {
      running -= 1
      inHand -= taken.length
      if (waiting.length > 0) start()
    }
  }
  const start = (): void => {
    if (scheduled || running >= atOnce) return
    scheduled = true
    // What is added in the same turn of the event loop goes together, unless nothing is being done meanwhile.
    const flushWhen = running === 0 ? sooner : soon
    flushWhen(() => {
      scheduled = false
      while (waiting.length > 0 && running < atOnce) void flush()
    })
  }
  return {
    add(item) {
      const done = Promise.withResolvers<Answer>()
      waiting.push({ item, done })
      start()
      return done.promise
    },
    get size() {
      return waiting.length + inHand
    },
  }
}
