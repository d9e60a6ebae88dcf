/**
 * A signal that aborts with the first of several, until `leave` is called. Unlike one of `AbortSignal.any`, which its
 * longest-lived source keeps for as long as anybody listens to it, it is gone when the work is done.
 */
export function follow(...sources: readonly AbortSignal[]): { readonly signal: AbortSignal; leave(): void } {
  const own = new AbortController()
  const leave = (): void => {
    for (const source of sources) source.removeEventListener('abort', abort)
  }
  const abort = (): void => {
    leave()
    own.abort(sources.find(({ aborted }) => aborted)?.reason)
  }
  for (const source of sources) source.addEventListener('abort', abort, { once: true })
  if (sources.some(({ aborted }) => aborted)) abort()
  return { signal: own.signal, leave }
}

/** Waits for a promise that knows nothing of the signal; when the signal comes first, its reason is thrown at once. */
export async function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const onAbort = (): void => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    return await Promise.race([aborted, promise])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
