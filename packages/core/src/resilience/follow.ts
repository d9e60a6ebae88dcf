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
