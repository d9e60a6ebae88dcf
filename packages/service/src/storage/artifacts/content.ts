import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
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

const pattern = /^sha256:([0-9a-f]{64})$/

/** The hex digits of a digest that came from anywhere; undefined when it is none, so that nothing else becomes a name. */
export function digitsOf(digest: string): string | undefined {
  return pattern.exec(digest)?.[1]
}

/** Finds the digest of content that comes in pieces. */
export function createDigest(): { add(piece: Uint8Array): void; end(): string } {
  const hash = createHash('sha256')
  return {
    add: (piece) => void hash.update(piece),
    end: () => `sha256:${hash.digest('hex')}`,
  }
}

export function notThere(digest: string, cause?: unknown): ToolError {
  const named = digitsOf(digest) === undefined ? 'that was named by what is no digest' : digest
  return new ToolError('NOT_FOUND', `The artifact store has no file ${named}.`, { cause })
}

export function corrupted(digest: string): ToolError {
  const message = `The file ${digest} in the artifact store holds other bytes than its digest says; restore it.`
  return new ToolError('STORE_UNAVAILABLE', message, { retryable: false })
}

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

const longestName = 150

/** Types that a browser cannot run anything of, wherever it meets them. */
const passive =
  /^(?:image\/(?:avif|gif|jpeg|png|webp)|(?:audio|video)\/[a-z0-9.+-]{1,64}|text\/(?:csv|plain)|application\/(?:gzip|json|pdf|zip))$/

/** The type to answer a download with where no other header keeps a browser from showing it. */
export function passiveType(mimeType: string): string {
  return passive.test(mimeType) ? mimeType : 'application/octet-stream'
}

/** `Content-Disposition` of a file that a tool has named: it may end no header, leave no folder, and is not shown. */
export function attachment(name: string): string {
  const plain = name.replace(/[^\x20-\x7e]|["\\/%]/g, '_').replace(/^\.+/, '_')
  const whole = name
    .toWellFormed()
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\\/]/gu, '_')
    .replace(/^\.+/, '_')
  const ascii = plain.slice(0, longestName).trim() || 'artifact'
  const utf8 = encodeURIComponent([...whole].slice(0, longestName).join('')).replace(/['()*]/g, hex)
  return `attachment; filename="${ascii}"; filename*=UTF-8''${utf8 || 'artifact'}`
}

function hex(character: string): string {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`
}
