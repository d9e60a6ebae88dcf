import { pipeline, type Transform } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { broken } from './failures.ts'

/** How a body is read. */
export interface BodyOptions {
  readonly origin: string
  /** The `Content-Encoding`, if any. */
  readonly encoding: string | undefined
  readonly limit: number
  /** Whether the request can have changed nothing. */
  readonly safe: boolean
  readonly signal: AbortSignal
}

type Zlib = typeof import('node:zlib')
type Decoder = (zlib: Zlib, first: Uint8Array) => Transform

const decoders: { readonly [encoding: string]: Decoder } = {
  gzip: (zlib) => zlib.createGunzip(),
  'x-gzip': (zlib) => zlib.createGunzip(),
  // Some servers leave out the two bytes of zlib's own header.
  deflate: (zlib, [first = 0]) => ((first & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw()),
  br: (zlib) => zlib.createBrotliDecompress(),
  // RFC 9659: more than 8 MiB of window may not be asked of a reader.
  zstd: (zlib) => zlib.createZstdDecompress({ params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } }),
}

/** Where the pieces come from; `destroy` lets go of those that were not read. */
export interface BodySource extends AsyncIterable<Uint8Array> {
  destroy(): void
}

/** The decoded pieces of a body. The source is destroyed when reading ends, however it ends. */
export async function* readBody(source: BodySource, options: BodyOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const { origin, limit, safe, signal } = options
  const tooLarge = (): ToolError => tooLargeBody(origin, limit, safe)
  try {
    const encoding = encodingOf(options)
    // The encoded form counts too: an endless row of empty gzip members decodes to nothing.
    const wire = bounded(source, limit + Math.ceil(limit / 64) + 1_024, tooLarge)
    yield* bounded(encoding === undefined ? wire : decoded(wire, encoding), limit, tooLarge)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw broken(origin, safe, error)
  } finally {
    source.destroy()
  }
}

export function tooLargeBody(origin: string, limit: number, safe: boolean): ToolError {
  return new ToolError('RESULT_TOO_LARGE', `${origin} sent a body of more than ${limit} bytes.`, {
    stage: 'execute',
    effect: safe ? 'none' : 'possible',
  })
}

/** The one encoding to undo; a second one serves only to hide how much there is. */
function encodingOf({ origin, encoding = '', safe }: BodyOptions): Decoder | undefined {
  const names = encoding
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
  const [name] = names
  if (name === undefined) return undefined
  const decoder = Object.hasOwn(decoders, name) ? decoders[name] : undefined
  if (names.length === 1 && decoder !== undefined) return decoder
  const words = names.length > 1 ? 'encoded more than once' : 'in an encoding that is not known'
  throw new ToolError('BACKEND_FAILED', `${origin} sent a body ${words}.`, { effect: safe ? 'none' : 'possible' })
}

async function* bounded(
  source: AsyncIterable<Uint8Array>,
  limit: number,
  tooLarge: () => ToolError,
): AsyncGenerator<Uint8Array, void, undefined> {
  let bytes = 0
  for await (const piece of source) {
    bytes += piece.byteLength
    if (bytes > limit) throw tooLarge()
    yield piece
  }
}

async function* decoded(wire: AsyncGenerator<Uint8Array, void>, decoder: Decoder): AsyncGenerator<Uint8Array, void> {
  const first = await wire.next()
  if (first.done === true) return
  const zlib = await import('node:zlib')
  const transform = decoder(zlib, first.value)
  const all = async function* (): AsyncGenerator<Uint8Array, void> {
    yield first.value
    yield* wire
  }
  pipeline(all, transform, () => {})
  yield* transform
}
