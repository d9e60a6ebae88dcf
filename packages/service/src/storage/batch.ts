/** Combines operations on single items into operations on many. */
export interface Batch<Item, Answer> {
  /** Resolves with the answer for this item; rejects when its batch fails. */
  add(item: Item): Promise<Answer>
  /** Items that wait or are in a running batch. */
  readonly size: number
}

export interface BatchOptions {
  readonly most?: number
  /** Limit of concurrent batches. */
  readonly atOnce?: number
  /** Runs a function after the current turn of the event loop. */
  readonly soon?: (work: () => void) => unknown
  /** As `soon`, for an item added while no batch runs, which need not wait for others. */
  readonly sooner?: (work: () => void) => unknown
}

/**
 * Collects items while a batch runs, which amortizes the cost of a statement: a single item runs at once, and under
 * load a batch has all items that were added while the last one was committed. `work` answers in the order of the
 * items.
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
    // Items of the same turn of the event loop go into one batch, unless no batch is running.
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
