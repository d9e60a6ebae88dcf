/** Something to measure: call number `n` of it, awaited when it is a promise. */
export type Run = (n: number) => unknown

/** Prepares a subject; throws when it cannot be measured here. */
export type Setup = () => Run | Promise<Run>

/** A quantile of sorted values. */
export function quantile(values: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(values).sort()
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export function median(values: ArrayLike<number>): number {
  return quantile(values, 0.5)
}

/** Microseconds a call, as the mean of a batch, because one clock reading is not free beside a call of 100 ns. */
export async function timeBatch(run: Run, calls: number): Promise<number> {
  const start = performance.now()
  for (let n = 0; n < calls; n += 1) await run(n)
  return ((performance.now() - start) * 1_000) / calls
}

/** Microseconds of each call on its own, for the tail that a mean hides. */
export async function timeSingles(run: Run, calls: number): Promise<Float64Array> {
  const times = new Float64Array(calls)
  for (let n = 0; n < calls; n += 1) {
    const start = performance.now()
    await run(n)
    times[n] = (performance.now() - start) * 1_000
  }
  return times
}

/** Calls until the time has passed, so that the code is compiled before it counts; returns how many calls fill `batchMs`. */
export async function warmUp(run: Run, ms: number, batchMs: number): Promise<number> {
  const end = performance.now() + ms
  let perCall = Number.POSITIVE_INFINITY
  while (performance.now() < end) perCall = Math.min(perCall, await timeBatch(run, 20))
  return Math.max(1, Math.round((batchMs * 1_000) / perCall))
}

/**
 * Bytes allocated a call: the growth of the used heap over calls between which nothing is collected. Needs
 * `--expose-gc` and a young generation that holds all of it; a measurement during which the heap shrank is dropped.
 */
export async function allocatedBytes(run: Run, calls: number): Promise<number> {
  const values: number[] = []
  for (let round = 0; round < 7; round += 1) {
    collectGarbage()
    const before = process.memoryUsage().heapUsed
    for (let n = 0; n < calls; n += 1) await run(n)
    const grown = process.memoryUsage().heapUsed - before
    if (grown >= 0) values.push(grown / calls)
  }
  return median(values)
}

/** Live bytes after a full collection, including typed arrays, which an index may use for everything. */
export function liveBytes(): number {
  collectGarbage()
  collectGarbage()
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}

function collectGarbage(): void {
  if (globalThis.gc === undefined) throw new Error('start node with --expose-gc')
  globalThis.gc()
}
