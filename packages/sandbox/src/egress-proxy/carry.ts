import type { Duplex } from 'node:stream'

/**
 * Moves bytes from one side to the other as they come, and ends the other side when they end. Not by a pipeline, because
 * what that does for every piece takes longer than the rest of the way.
 * - Cancellation: rejects with the signal's reason; both sides stay the caller's to destroy.
 * - Errors: what `pass` throws, and that a side closed before its end.
 */
export function carry(
  from: Duplex,
  to: Duplex,
  pass: (piece: Uint8Array) => Uint8Array | undefined,
  signal: AbortSignal,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  let ended = false
  const take = (piece: Uint8Array): void => {
    try {
      const passed = pass(piece)
      if (passed !== undefined && !to.write(passed)) from.pause()
    } catch (error) {
      from.off('data', take)
      reject(error)
    }
  }
  const goOn = (): void => void from.resume()
  const end = (): void => {
    ended = true
    to.end(resolve)
  }
  const closed = (): void => {
    if (!ended) reject(new Error('The connection closed before its end.'))
  }
  // Whoever has said all that he wanted to say and goes need not hear the rest.
  const gone = (): void => (to.readableEnded ? resolve() : reject(new Error('The other side closed.')))
  const abort = (): void => reject(signal.reason)
  from.on('data', take).once('end', end).once('close', closed)
  to.on('drain', goOn).once('close', gone)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  return promise.finally(() => {
    from.off('data', take).off('end', end).off('close', closed)
    to.off('drain', goOn).off('close', gone)
    signal.removeEventListener('abort', abort)
  })
}
