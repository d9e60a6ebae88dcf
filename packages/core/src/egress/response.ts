import { ToolError } from '@gantry/contract'
import type { Dispatcher } from 'undici'
import { readBody, tooLargeBody } from './body.ts'
import type { EgressResponse } from './egress.ts'
import type { Exchange } from './exchange.ts'
import { broken } from './failures.ts'

/** A response as its reader sees it: decoded, bounded, and without the headers that speak of the encoded form. */
export function present(
  raw: Dispatcher.ResponseData,
  asked: Exchange,
  limit: number,
  changed: boolean,
): EgressResponse {
  const { target, url, method, signal, safe } = asked
  const headers = headersOf(raw.headers)
  if (raw.statusCode > 599) {
    raw.body.destroy()
    const effect = safe ? 'none' : 'possible'
    throw new ToolError('BACKEND_FAILED', `${target.origin} answered with a status that does not exist.`, { effect })
  }
  const encoding = headers.get('content-encoding') ?? undefined
  if (encoding === undefined && method !== 'HEAD' && Number(headers.get('content-length')) > limit) {
    raw.body.destroy()
    throw tooLargeBody(target.origin, limit, safe)
  }
  if (encoding !== undefined) {
    headers.delete('content-encoding')
    headers.delete('content-length')
  }
  const body = readBody(raw.body, { origin: target.origin, encoding, limit, safe, signal })
  const counted = encoding === undefined && headers.has('content-length')
  const bytes = counted ? () => readCounted(raw.body, asked) : () => readPieces(body)
  return {
    status: raw.statusCode,
    changed,
    headers,
    url: url.href,
    body,
    bytes,
    text: async () => new TextDecoder().decode(await bytes()),
    cancel: () => void raw.body.destroy(),
  }
}

/** A body that says how long it is, within the limit, is read in one go: no more of it is taken than it says. */
async function readCounted(
  body: Dispatcher.ResponseData['body'],
  { target, safe, signal }: Exchange,
): Promise<Uint8Array> {
  try {
    return await body.bytes()
  } catch (error) {
    if (signal.aborted) throw signal.reason
    throw broken(target.origin, safe, error)
  }
}

async function readPieces(body: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  for await (const piece of body) pieces.push(piece)
  return Buffer.concat(pieces)
}

function headersOf(raw: Dispatcher.ResponseData['headers']): Headers {
  const headers = new Headers()
  for (const [name, value] of Object.entries(raw)) {
    for (const one of Array.isArray(value) ? value : [value ?? '']) headers.append(name, one)
  }
  return headers
}
