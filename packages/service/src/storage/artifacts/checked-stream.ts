import { Readable } from 'node:stream'

/** Sees every piece of content, and throws when they are not what they should be. */
export interface ContentCheck {
  add(piece: Uint8Array): void
  end(): void
}

export interface CheckedStreamOptions {
  /** Destroys the stream with its reason. */
  readonly signal: AbortSignal
  readonly check?: ContentCheck
  /** Lets go of what the pieces come from; called once, however the stream ends. */
  close(): Promise<void>
}

/** Pieces as a stream, which owns their source from here on; the last one comes only once all of them passed the check. */
export function checkedStream(
  source: AsyncIterable<Uint8Array>,
  { signal, check, close }: CheckedStreamOptions,
): Readable {
  const pieces = checked(source, check)
  const stop = (): void => void stream.destroy(signal.reason)
  const stream = new Readable({
    read() {
      pieces.next().then(
        ({ value, done }) => this.push(done ? null : value),
        (error: Error) => this.destroy(error),
      )
    },
    destroy(error, callback) {
      signal.removeEventListener('abort', stop)
      const closed = (): void => callback(error)
      close().then(closed, closed)
    },
  })
  // One that nobody listens to must not end the process; whoever reads it hears of the error all the same.
  stream.on('error', () => undefined)
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  return stream
}

async function* checked(pieces: AsyncIterable<Uint8Array>, check: ContentCheck | undefined) {
  let last: Uint8Array | undefined
  for await (const piece of pieces) {
    check?.add(piece)
    if (last !== undefined) yield last
    last = piece
  }
  check?.end()
  if (last !== undefined) yield last
}
