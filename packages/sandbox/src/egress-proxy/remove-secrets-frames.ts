import { ToolError } from '@gantry/contract'
import type { Standing } from './placeholder.ts'
import { createFrameReader, type FramePart } from './websocket-frames.ts'

/** So many bytes of heads and control frames may wait with a message, which is in as many frames as its server likes. */
const mostBetween = 65_536

/**
 * Passes the frames of a WebSocket on as long as no secret is in them, and throws EGRESS_DENIED before one goes on.
 *
 * The end of a message that goes on waits, as far back as a secret in it may be unfinished and whatever it says; with the
 * end of the message all of it goes on, so that nobody waits for the next one. What waits when the connection ends in the
 * middle of a message stays away.
 */
export async function* withoutSecrets(
  pieces: AsyncIterable<Uint8Array>,
  standing: readonly Standing[],
): AsyncGenerator<Uint8Array, void, undefined> {
  const reader = createFrameReader()
  let waiting: FramePart[] = []
  for await (const piece of pieces) {
    const passed: Buffer[] = []
    for (const part of reader.push(piece)) {
      waiting.push(part)
      if (part.kind === 'control') check(part.bytes.toString('latin1'), standing)
      if (!part.ends) continue
      check(messageOf(waiting), standing)
      passed.push(joined(waiting))
      waiting = []
    }
    const message = messageOf(waiting)
    const settled = Math.min(message.length, ...standing.map(({ redactor }) => redactor.settled(message)))
    if (settled > 0) check(message, standing)
    const [before, behind] = parted(waiting, settled)
    waiting = behind
    const bytes = Buffer.concat([...passed, joined(before)])
    if (bytes.length > 0) yield bytes
    if (joined(waiting).length - (message.length - settled) > mostBetween) {
      throw new ToolError('EGRESS_DENIED', 'The server sent a message in too many small frames.')
    }
  }
}

function joined(parts: readonly FramePart[]): Buffer {
  return Buffer.concat(parts.map(({ bytes }) => bytes))
}

function messageOf(parts: readonly FramePart[]): string {
  return joined(parts.filter(({ kind }) => kind === 'data')).toString('latin1')
}

function check(text: string, standing: readonly Standing[]): void {
  if (standing.every(({ redactor }) => redactor.text(text) === text)) return
  throw new ToolError('EGRESS_DENIED', 'The server sent a secret back.')
}

/** Divides parts behind so many bytes of their message, with what stands before the next byte of it. */
function parted(parts: readonly FramePart[], length: number): [FramePart[], FramePart[]] {
  let left = length
  for (const [index, part] of parts.entries()) {
    if (part.kind !== 'data') continue
    if (part.bytes.length > left) {
      const [before, behind] = [part.bytes.subarray(0, left), part.bytes.subarray(left)]
      const more = left === 0 ? [] : [{ ...part, bytes: before }]
      return [
        [...parts.slice(0, index), ...more],
        [{ ...part, bytes: behind }, ...parts.slice(index + 1)],
      ]
    }
    left -= part.bytes.length
  }
  return [[...parts], []]
}
