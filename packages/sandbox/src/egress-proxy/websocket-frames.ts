import { ToolError } from '@gantry/contract'

/** A part of what the server of a WebSocket sent; all of them in their order are the bytes as they came. */
export interface FramePart {
  /** `data` are bytes of a message, `head` is what stands before them, and `control` a whole frame that is no message. */
  readonly kind: 'head' | 'data' | 'control'
  readonly bytes: Buffer
  /** Whether a message ends here; it may have come in several frames. */
  readonly ends: boolean
}

/** Takes bytes apart that come in pieces: data as it comes, and all else when it is whole. */
export interface FrameReader {
  /** Throws EGRESS_DENIED for what no server sends that agreed to no extension. */
  push(piece: Uint8Array): FramePart[]
}

export function createFrameReader(): FrameReader {
  let kept: Buffer = Buffer.alloc(0)
  let left = 0
  let final = false
  const take = (length: number): Buffer => {
    const taken = kept.subarray(0, length)
    kept = kept.subarray(length)
    return taken
  }
  /** The next part of what is kept; undefined when more must come first. */
  const next = (): FramePart | undefined => {
    if (left > 0) {
      if (kept.length === 0) return undefined
      const bytes = take(left)
      left -= bytes.length
      return { kind: 'data', bytes, ends: final && left === 0 }
    }
    const head = headOf(kept)
    if (head === undefined) return undefined
    if (head.control) {
      const length = head.length + head.payload
      return kept.length < length ? undefined : { kind: 'control', bytes: take(length), ends: false }
    }
    left = head.payload
    final = head.final
    return { kind: 'head', bytes: take(head.length), ends: final && left === 0 }
  }
  return {
    push(piece) {
      kept = Buffer.concat([kept, piece])
      const parts: FramePart[] = []
      for (let part = next(); part !== undefined; part = next()) parts.push(part)
      return parts
    },
  }
}

interface Head {
  readonly length: number
  readonly payload: number
  readonly final: boolean
  readonly control: boolean
}

/** What the first bytes of a frame say (RFC 6455, 5.2); undefined when they are not all there. */
function headOf(bytes: Buffer): Head | undefined {
  const [first, second] = bytes
  if (first === undefined || second === undefined) return undefined
  const [final, control, short] = [(first & 0x80) !== 0, (first & 0x08) !== 0, second & 0x7f]
  const reserved = (first & 0x70) !== 0 || (second & 0x80) !== 0
  if (reserved || (control && (short > 125 || !final))) {
    throw new ToolError('EGRESS_DENIED', 'The server sent what is no frame of a WebSocket without extensions.')
  }
  const length = short === 127 ? 10 : short === 126 ? 4 : 2
  if (bytes.length < length) return undefined
  const payload = short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short
  return { length, payload, final, control }
}
