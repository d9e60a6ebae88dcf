export interface Rate {
  readonly perSecond: number
  readonly seconds: number
}

/**
 * Milliseconds of each call. Calls start on schedule, whether or not earlier ones have ended, and are timed from their
 * scheduled start, so that a slow subject cannot hide by receiving fewer calls. If a timer fires early, the call is
 * timed from then.
 */
export async function callAtRate(call: (n: number) => Promise<unknown>, rate: Rate): Promise<readonly number[]> {
  const times = new Array<number>(rate.perSecond * rate.seconds)
  const open: Promise<void>[] = []
  const start = performance.now()
  for (let n = 0; n < times.length; n += 1) {
    const due = start + (n * 1_000) / rate.perSecond
    const early = due - performance.now()
    if (early > 0) await new Promise((resolve) => setTimeout(resolve, early))
    const begun = Math.min(due, performance.now())
    open.push(
      call(n).then(() => {
        times[n] = performance.now() - begun
      }),
    )
  }
  await Promise.all(open)
  return times
}
