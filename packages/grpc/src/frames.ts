import type { Readable } from 'node:stream'
import { ToolError } from '@gantry/contract'

const headBytes = 5

/** Cuts a gRPC body into messages; refuses one that says it is larger than allowed before any of it is kept. */
export async function* messagesOf(body: Readable, maxBytes: number): AsyncGenerator<Buffer, void> {
  let part = Buffer.alloc(headBytes)
  let filled = 0
  let inHead = true
  // Leaving must not destroy the stream: whoever opened it cancels it, so that the server hears the right reason.
  for await (const piece of body.iterator({ destroyOnReturn: false })) {
    const chunk: Buffer = piece
    for (let at = 0; at < chunk.length || filled === part.length; ) {
      const taken = chunk.copy(part, filled, at)
      at += taken
      filled += taken
      if (filled < part.length) break
      const whole = part
      if (!inHead) yield whole
      part = Buffer.allocUnsafe(inHead ? lengthOf(whole, maxBytes) : headBytes)
      filled = 0
      inHead = !inHead
    }
  }
  if (filled > 0 || !inHead) throw new Error('The body ends inside a message.')
}

function lengthOf(head: Buffer, maxBytes: number): number {
  const length = head.readUInt32BE(1)
  if (head[0] !== 0)
    throw new ToolError('BACKEND_FAILED', 'The server sent a compressed message, which was not asked for.')
  if (length <= maxBytes) return length
  throw new ToolError(
    'RESULT_TOO_LARGE',
    `The server sent a message of ${length} bytes; maxResponseBytes is ${maxBytes}.`,
  )
}
