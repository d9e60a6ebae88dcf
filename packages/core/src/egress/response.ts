import type { IncomingHttpHeaders } from 'node:http'
import { pipeline, type Transform } from 'node:stream'
import { ToolError } from '@gantry/contract'
import type { EgressResponse } from './egress.ts'
import type { Exchange, Incoming } from './exchange.ts'
import { broken } from './failures.ts'

/** A response for its reader: decoded, size-limited, and without the headers of the encoded form. */
export function present(
  raw: Incoming,
  asked: Exchange,
  limit: number,
  changed: boolean,
  partial = false,
): EgressResponse {
  const { target, method, safe } = asked
  if (raw.status > 599) {
    raw.destroy()
    const effect = safe ? 'none' : 'possible'
    throw new ToolError('BACKEND_FAILED', `${target.origin} answered with an invalid status.`, { effect })
  }
  const encoding = headerOf(raw.headers, 'content-encoding')
  if (
    !partial &&
    encoding === undefined &&
    method !== 'HEAD' &&
    Number(headerOf(raw.headers, 'content-length')) > limit
  ) {
    raw.destroy()
    throw tooLargeBody(target.origin, limit, safe)
  }
  return new Presented(raw, asked, encoding, limit, changed)
}

/** A class, because an object literal with getters costs more to create than most readers use of it. */
class Presented implements EgressResponse {
  readonly status: number
  readonly changed: boolean
  readonly contentType: string | undefined
  readonly url: string
  readonly #raw: Incoming
  readonly #asked: Exchange
  readonly #encoding: string | undefined
  readonly #limit: number
  #headers: Headers | undefined
  #body: AsyncIterable<Uint8Array> | undefined

  constructor(raw: Incoming, asked: Exchange, encoding: string | undefined, limit: number, changed: boolean) {
    this.status = raw.status
    this.changed = changed
    this.contentType = headerOf(raw.headers, 'content-type')
    this.url = asked.url.href
    this.#raw = raw
    this.#asked = asked
    this.#encoding = encoding
    this.#limit = limit
  }

  get headers(): Headers {
    this.#headers ??= headersOf(this.#raw.headers, this.#encoding !== undefined)
    return this.#headers
  }

  get body(): AsyncIterable<Uint8Array> {
    const { target, safe, signal } = this.#asked
    const options = { origin: target.origin, encoding: this.#encoding, limit: this.#limit, safe, signal }
    this.#body ??= readBody(this.#raw, options)
    return this.#body
  }

  bytes(): Promise<Uint8Array> {
    return this.#encoding === undefined ? readWhole(this.#raw, this.#asked, this.#limit) : readPieces(this.body)
  }

  async text(): Promise<string> {
    return new TextDecoder().decode(await this.bytes())
  }

  cancel(): void {
    this.#raw.destroy()
  }
}

/** Reads a body that needs no decoding; most are already buffered in one piece. */
async function readWhole(raw: Incoming, { target, safe, signal }: Exchange, limit: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  let bytes = 0
  try {
    for (;;) {
      const piece = raw.take()
      if (piece !== undefined) pieces.push(piece)
      else if (raw.over) break
      else await raw.more()
      bytes += piece?.byteLength ?? 0
      if (bytes > limit) throw tooLargeBody(target.origin, limit, safe)
    }
  } catch (error) {
    raw.destroy()
    if (signal.aborted) throw signal.reason
    throw broken(target.origin, safe, error)
  }
  const [first] = pieces
  return first !== undefined && pieces.length === 1 ? first : Buffer.concat(pieces)
}

async function readPieces(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  for await (const piece of body) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** One header as `Headers` returns it. */
function headerOf(raw: IncomingHttpHeaders, name: string): string | undefined {
  const value = Object.hasOwn(raw, name) ? raw[name] : undefined
  return Array.isArray(value) ? value.join(', ') : value
}

function headersOf(raw: IncomingHttpHeaders, encoded: boolean): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(raw)) {
    if (encoded && (name === 'content-encoding' || name === 'content-length')) continue
    for (const one of Array.isArray(value) ? value : [value ?? '']) headers.append(name, one)
  }
  return headers
}

/** Options for reading a body. */
interface BodyOptions {
  readonly origin: string
  /** The `Content-Encoding`, if any. */
  readonly encoding: string | undefined
  readonly limit: number
  /** Whether the request has no side effect. */
  readonly safe: boolean
  readonly signal: AbortSignal
}

type Zlib = typeof import('node:zlib')
type Decoder = (zlib: Zlib, first: Uint8Array) => Transform

const decoders: { readonly [encoding: string]: Decoder } = {
  gzip: (zlib) => zlib.createGunzip(),
  'x-gzip': (zlib) => zlib.createGunzip(),
  // Some servers omit the two bytes of the zlib header.
  deflate: (zlib, [first = 0]) => ((first & 0x0f) === 8 ? zlib.createInflate() : zlib.createInflateRaw()),
  br: (zlib) => zlib.createBrotliDecompress(),
  // RFC 9659 limits the window to 8 MiB.
  zstd: (zlib) => zlib.createZstdDecompress({ params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } }),
}

/** The source of a body; `destroy` drops unread pieces. */
interface BodySource extends AsyncIterable<Uint8Array> {
  destroy(): void
}

/** The decoded pieces of a body. The source is destroyed when reading ends, stops early or fails. */
export async function* readBody(source: BodySource, options: BodyOptions): AsyncGenerator<Uint8Array, void, undefined> {
  const { origin, limit, safe, signal } = options
  const tooLarge = (): ToolError => tooLargeBody(origin, limit, safe)
  try {
    const encoding = encodingOf(options)
    // The encoded bytes are limited too: an endless sequence of empty gzip members decodes to nothing.
    const wire = bounded(source, limit + Math.ceil(limit / 64) + 1_024, tooLarge)
    yield* bounded(encoding === undefined ? wire : decoded(wire, encoding), limit, tooLarge)
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw broken(origin, safe, error)
  } finally {
    source.destroy()
  }
}

function tooLargeBody(origin: string, limit: number, safe: boolean): ToolError {
  return new ToolError('RESULT_TOO_LARGE', `${origin} sent a body of more than ${limit} bytes.`, {
    stage: 'execute',
    effect: safe ? 'none' : 'possible',
  })
}

/** The decoder of the body; stacked encodings are refused, because they hide the decoded size. */
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
  const words = names.length > 1 ? 'encoded more than once' : 'in an unknown encoding'
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
