import { createHash } from 'node:crypto'
import { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { onAbort, unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Content } from './artifact-store.ts'

/** The chunks of content. Throws the reason of the signal when it aborts, also when the source ignores it. */
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
    // Not awaited, because a source that hangs would never end.
    if (!ended) source.return?.().catch(() => undefined)
  }
}

const pattern = /^sha256:([0-9a-f]{64})$/

/** The hex digits of an untrusted digest; undefined when it is invalid, so that nothing else becomes a file name. */
export function digitsOf(digest: string): string | undefined {
  return pattern.exec(digest)?.[1]
}

/** Computes the digest of streamed content. */
export function createDigest(): { add(piece: Uint8Array): void; end(): string } {
  const hash = createHash('sha256')
  return {
    add: (piece) => void hash.update(piece),
    end: () => `sha256:${hash.digest('hex')}`,
  }
}

export function notThere(digest: string, cause?: unknown): ToolError {
  const named = digitsOf(digest) === undefined ? 'with an invalid digest' : digest
  return new ToolError('NOT_FOUND', `The artifact store has no file ${named}.`, { cause })
}

export function corrupted(digest: string): ToolError {
  const message = `The file ${digest} in the artifact store is corrupted: its bytes do not match its digest; restore it.`
  return new ToolError('STORE_UNAVAILABLE', message, { retryable: false })
}

/** Checks every chunk of content, and throws when the content is wrong. */
export interface ContentCheck {
  add(piece: Uint8Array): void
  end(): void
}

export interface CheckedStreamOptions {
  /** Destroys the stream with its reason. */
  readonly signal: AbortSignal
  readonly check?: ContentCheck
  /** Closes the source; called once, however the stream ends. */
  close(): Promise<void>
}

/** Makes a stream of chunks, which owns their source. The last chunk is sent only after the check has passed. */
export function checkedStream(
  source: AsyncIterable<Uint8Array>,
  { signal, check, close }: CheckedStreamOptions,
): Readable {
  const pieces = checked(source, check)
  const stream = new Readable({
    read() {
      pieces.next().then(
        ({ value, done }) => this.push(done ? null : value),
        (error: Error) => this.destroy(error),
      )
    },
    destroy(error, callback) {
      const closed = (): void => callback(error)
      close().then(closed, closed)
    },
  })
  // Without a listener an error would crash the process; readers still get the error.
  stream.on('error', () => undefined)
  stream.once(
    'close',
    onAbort(signal, () => void stream.destroy(signal.reason)),
  )
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

/** Media types without active content in a browser. */
const passive =
  /^(?:image\/(?:avif|gif|jpeg|png|webp)|(?:audio|video)\/[a-z0-9.+-]{1,64}|text\/(?:csv|plain)|application\/(?:gzip|json|pdf|zip))$/

/** The content type of a download that is safe even if a browser displays it. */
export function passiveType(mimeType: string): string {
  return passive.test(mimeType) ? mimeType : 'application/octet-stream'
}

/** `Content-Disposition` for a name from a tool: it cannot end the header or leave a folder, and forces a download. */
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
