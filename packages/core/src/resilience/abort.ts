/**
 * Calls `listener` once when the signal aborts, at once when it has aborted already. Returns a function that removes the
 * listener; call it when the work ends, because a signal keeps its listeners for as long as it lives.
 */
export function onAbort(signal: AbortSignal, listener: () => void): () => void {
  if (signal.aborted) listener()
  else signal.addEventListener('abort', listener, { once: true })
  return () => signal.removeEventListener('abort', listener)
}

/** A signal that follows others and can be aborted on its own. */
export interface FollowedSignal {
  readonly signal: AbortSignal
  abort(reason: unknown): void
  /** Stops following. */
  leave(): void
}

/**
 * A signal that aborts with the first of several, until `leave` is called. `AbortSignal.any` would be kept alive by its
 * longest-lived source; this signal can be collected when the work ends.
 */
export function follow(...sources: readonly AbortSignal[]): FollowedSignal {
  const own = new AbortController()
  const leave = (): void => {
    for (const source of sources) source.removeEventListener('abort', onSource)
  }
  const onSource = (): void => {
    leave()
    own.abort(sources.find(({ aborted }) => aborted)?.reason)
  }
  for (const source of sources) source.addEventListener('abort', onSource, { once: true })
  if (sources.some(({ aborted }) => aborted)) onSource()
  return { signal: own.signal, abort: (reason) => own.abort(reason), leave }
}

/**
 * Waits for work that ignores the signal; rejects at once when the signal aborts first, with `reasonOf` its reason.
 * Work given as a function starts after the listener is registered, so that the signal's reason wins over a rejection that
 * the abort causes.
 */
export async function unlessAborted<T>(
  work: Promise<T> | (() => Promise<T>),
  signal: AbortSignal,
  reasonOf: (reason: unknown) => unknown = (reason) => reason,
): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const remove = onAbort(signal, () => reject(reasonOf(signal.reason)))
  try {
    return await Promise.race([aborted, typeof work === 'function' ? work() : work])
  } finally {
    remove()
  }
}

const longestTimerMs = 2_147_483_647

/** Waits for work at most `ms`; then calls `late`, and returns its result or throws what it throws. */
export async function within<T, Late>(ms: number, work: Promise<T>, late: () => Late): Promise<T | Late> {
  const { promise: elapsed, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, Math.min(ms, longestTimerMs))
  try {
    return await Promise.race([work, elapsed.then(late)])
  } finally {
    clearTimeout(timer)
  }
}
