import { timingSafeEqual } from 'node:crypto'
import { frameTag, type SigningKey } from './signature.ts'

/** The content of a frame of a run. */
export const frameTypes = {
  /** Nothing; shows that the host is there. Not counted as a frame of the run. */
  ping: 0,
  stdout: 1,
  stderr: 2,
  /** JSON: a message of descriptor 3. */
  message: 3,
  /** JSON: gateway requests. */
  ask: 4,
  /** The path of a collected file; its content follows. */
  file: 5,
  /** A part of the content of the file before. */
  bytes: 6,
  /** JSON: the outcome. The last frame of a run. */
  outcome: 7,
  /** JSON: the error that ended the run. The last frame of a run. */
  error: 8,
} as const

export type FrameType = (typeof frameTypes)[keyof typeof frameTypes]

export interface Frame {
  readonly type: FrameType
  readonly payload: Uint8Array
}

/** Content is split into frames of at most this size. */
export const pieceBytes = 262_144
/** The largest payload of a frame: JSON of an outcome or of gateway requests. */
export const mostPayloadBytes = 33_554_432

const headBytes = 5
const tagBytes = 32
const lastType = frameTypes.error

/** The bytes of frames of one response: length, type, payload, tag. */
export function createFrameWriter(key: SigningKey, request: string): (frame: Frame) => Buffer {
  let place = 0
  return ({ type, payload }) => {
    const head = headOf(type, payload.length)
    const tag = frameTag(key, request, place, head, payload)
    place += 1
    return Buffer.concat([head, payload, tag])
  }
}

/** The other side sent what no genuine host sends. */
export class FrameError extends Error {
  override readonly name = 'FrameError'
}

export interface FrameReader {
  /** The frames that are complete with these bytes. Throws FrameError for one that is too large, unknown or altered. */
  push(bytes: Uint8Array): readonly Frame[]
}

/** Reads frames of one response; holds no more than one incomplete frame. */
export function createFrameReader(key: SigningKey, request: string, most = mostPayloadBytes): FrameReader {
  let pieces: Uint8Array[] = []
  let held = 0
  let wanted = headBytes
  let place = 0
  const joined = (): Buffer => {
    const whole = Buffer.concat(pieces)
    pieces = []
    held = 0
    return whole
  }
  const next = (whole: Buffer, at: number): { readonly frame: Frame; readonly end: number } | undefined => {
    if (whole.length - at < headBytes) {
      wanted = headBytes
      return undefined
    }
    const length = whole.readUInt32BE(at)
    const type = whole[at + 4] ?? 255
    if (length > most || type > lastType) throw new FrameError('The host sent a frame of an unknown form.')
    const end = at + headBytes + length + tagBytes
    if (whole.length < end) {
      wanted = end - at
      return undefined
    }
    const head = whole.subarray(at, at + headBytes)
    const payload = whole.subarray(at + headBytes, end - tagBytes)
    const tag = frameTag(key, request, place, head, payload)
    if (!timingSafeEqual(tag, whole.subarray(end - tagBytes, end))) throw new FrameError('A frame was altered.')
    place += 1
    return { frame: { type: type as FrameType, payload }, end }
  }
  return {
    push(bytes) {
      pieces.push(bytes)
      held += bytes.length
      if (held < wanted) return []
      const whole = joined()
      const frames: Frame[] = []
      let at = 0
      for (let found = next(whole, at); found !== undefined; found = next(whole, at)) {
        frames.push(found.frame)
        at = found.end
      }
      if (at < whole.length) {
        pieces = [whole.subarray(at)]
        held = whole.length - at
      } else wanted = headBytes
      return frames
    },
  }
}

function headOf(type: FrameType, length: number): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt32BE(length, 0)
  head[4] = type
  return head
}
