import type { Content } from './artifact-store.ts'

/** The pieces of content, until the signal aborts, whether their source notices or not; then its reason is thrown. */
export async function* piecesOf(content: Content, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
  if (content instanceof Uint8Array) return yield content
  const source = content[Symbol.asyncIterator]()
  let ended = false
  try {
    for (;;) {
      const { value, done } = await unlessAborted(source.next(), signal)
      ended = done === true
      if (ended) return
      yield value
    }
  } finally {
    // A source that hangs would never say that it has ended, so nobody waits for that.
    if (!ended) source.return?.().catch(() => undefined)
  }
}

function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop))
    if (signal.aborted) stop()
  })
}
