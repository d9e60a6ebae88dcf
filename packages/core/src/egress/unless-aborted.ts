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
