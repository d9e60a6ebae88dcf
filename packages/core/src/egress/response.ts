import type { IncomingHttpHeaders } from 'node:http'
import { ToolError } from '@gantry/contract'
import { readBody, tooLargeBody } from './body.ts'
import type { EgressResponse } from './egress.ts'
import type { Exchange } from './exchange.ts'
import { broken } from './failures.ts'
import type { Incoming } from './incoming.ts'

/** A response as its reader sees it: decoded, bounded, and without the headers that speak of the encoded form. */
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
    throw new ToolError('BACKEND_FAILED', `${target.origin} answered with a status that does not exist.`, { effect })
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

/** A class, because an object with getters of its own costs more to make than all that is asked of most. */
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

/** A body that needs no decoding; nearly every one is here in one piece when it is asked for. */
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

/** One header as `Headers` would give it. */
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
