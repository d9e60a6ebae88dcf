import type { ByteRange } from '../artifact-store.ts'
import { wrongAnswer } from './faults.ts'
import type { S3Place } from './options.ts'

/** A range as a header, which names the last byte and not the one behind it. */
export function rangeHeader({ start, end }: ByteRange): string {
  return `bytes=${start}-${Number.isSafeInteger(end) ? end - 1 : ''}`
}

/** Holds the bytes of an answer against the range that was asked for: not one more or less, and from the right place. */
export function rangeCheck(range: ByteRange, header: string | undefined, place: S3Place) {
  const expected = lengthOf(range, header)
  let bytes = 0
  return {
    add(piece: Uint8Array): void {
      bytes += piece.length
      if (expected === undefined || bytes > expected) throw wrongAnswer(place)
    },
    end(): void {
      if (bytes !== expected) throw wrongAnswer(place)
    },
  }
}

/** How many bytes come, from the `Content-Range` of the answer; undefined when it is another range. */
function lengthOf({ start, end }: ByteRange, header: string | undefined): number | undefined {
  const [, first, last, size] = /^bytes (\d{1,15})-(\d{1,15})\/(\d{1,15})$/.exec(header ?? '') ?? []
  const isAsked = Number(first) === start && Number(last) === Math.min(end, Number(size)) - 1
  return isAsked ? Number(last) - start + 1 : undefined
}
