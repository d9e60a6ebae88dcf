import { decoderFor } from '@gantry/core/internal/backends/http/media'
import type { EgressResponse } from '@gantry/core/internal/egress/egress'
import { createRedactor, type Redactor } from '@gantry/core/internal/json/redact'

/** What was read of a body. */
export interface Read {
  readonly bytes: Uint8Array
  /** Whether there was more. */
  readonly truncated: boolean
}

/** How much of a body to read, and what no cut may go through. */
export interface Extent {
  readonly limit: number
  /** Of the secrets that the request carried, each byte of theirs and of the body as one character. */
  readonly hidden: Redactor
}

/** For secrets as they are, and as their bytes in UTF-8 are read one by one. */
export function extentOf(limit: number, secrets: readonly string[]): Extent {
  const values = secrets.flatMap((secret) => [secret, Buffer.from(secret).toString('latin1')])
  return { limit, hidden: createRedactor({ values, keys: false }) }
}

/**
 * Reads a body up to a limit and lets go of the rest; each piece that counts is yielded.
 *
 * Half a secret is found by nobody later, so what is as near to the limit as a secret is long waits until every secret
 * that began before the limit has come whole, for which a little more is read, and then what is given ends before the one
 * that goes across. How much more never depends on what is there: otherwise a caller could try beginnings of a secret
 * until one is held back, or waited for.
 */
export async function* readPieces(
  response: EgressResponse,
  { limit, hidden }: Extent,
): AsyncGenerator<Uint8Array, Read, void> {
  const given: Uint8Array[] = []
  let atOnce = Math.max(0, limit - hidden.reach)
  const room = limit - atOnce
  const waiting: Uint8Array[] = []
  let waits = 0
  let left = limit + hidden.reach
  let more = false
  let due = room
  for await (const piece of response.body) {
    const part = piece.subarray(0, left)
    const now = part.subarray(0, atOnce)
    left -= part.byteLength
    atOnce -= now.byteLength
    if (now.byteLength > 0) {
      given.push(now)
      yield now
    }
    waiting.push(part.subarray(now.byteLength))
    waits += part.byteLength - now.byteLength
    more = part.byteLength < piece.byteLength
    if (!more && waits > due) {
      more = hidden.settled(Buffer.concat(waiting).toString('latin1')) >= room
      // A server that sends byte by byte must not have all of it searched for each of them.
      due = waits * 1.25
    }
    if (more) break
  }
  if (more) response.cancel()
  const truncated = more || waits > room
  const rest = Buffer.concat(waiting)
  const last = truncated ? rest.subarray(0, hidden.cut(rest.toString('latin1'), room)) : rest
  if (last.byteLength > 0) {
    given.push(last)
    yield last
  }
  return { bytes: Buffer.concat(given), truncated }
}

/** The same without anybody who watches. */
export async function readAll(response: EgressResponse, extent: Extent): Promise<Read> {
  const pieces = readPieces(response, extent)
  for (;;) {
    const step = await pieces.next()
    if (step.done === true) return step.value
  }
}

/** The same, with the text as it comes, cut between characters. */
export async function* readText(
  response: EgressResponse,
  extent: Extent,
  charset: string | undefined,
): AsyncGenerator<string, Read, void> {
  const decoder = decoderFor(charset)
  const pieces = readPieces(response, extent)
  for (;;) {
    const step = await pieces.next()
    if (step.done === true) return step.value
    const text = decoder.decode(step.value, { stream: true })
    if (text !== '') yield text
  }
}
