import type { Delivery } from '../transport.ts'
import { listOf, type Reply, textOf } from './reply.ts'

/** A stream entry as a message: the envelope is in its field, or in the only one; other fields are its headers. */
export function deliveryOf(stream: string, field: string, entry: readonly Reply[], deliveries: number): Delivery {
  const position = textOf(entry[0])
  const headers = new Map<string, Uint8Array>()
  const flat = listOf(entry[1])
  for (let at = 0; at + 1 < flat.length; at += 2) headers.set(textOf(flat[at]), bytesOf(flat[at + 1]))
  const [only] = headers.keys()
  const name = headers.size === 1 && only !== undefined ? only : field
  const bytes = headers.get(name) ?? new Uint8Array()
  headers.delete(name)
  return {
    id: `${stream}/${position}`,
    body: { kind: 'message', message: { bytes, headers, source: stream, position } },
    deliveries,
  }
}

/** An entry of which nothing is left but that it was there. */
export function goneDelivery(stream: string, position: string): Delivery {
  return { id: `${stream}/${position}`, body: { kind: 'gone', source: stream, position }, deliveries: 1 }
}

/** Where a delivery stands in the stream. */
export function positionOf({ body }: Delivery): string | undefined {
  if (body.kind === 'gone') return body.position
  return body.kind === 'message' ? body.message.position : undefined
}

function bytesOf(reply: Reply | undefined): Uint8Array {
  return Buffer.isBuffer(reply) ? reply : new Uint8Array()
}
