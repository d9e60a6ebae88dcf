import { Transform } from 'node:stream'
import { type ReadLineOptions, readLine } from './read-line.ts'
import { type RefusedJson, refusedMessage } from './refused-json.ts'

/** How long one message over stdio may be. */
export const mostLineBytes = 16 * 1_048_576
/** What the SDK may hold of it: more, because a number that a batch writes short is longer when it goes on alone. */
export const mostBufferBytes = 2 * mostLineBytes

export interface MessageLinesOptions extends Pick<ReadLineOptions, 'isMessage'> {
  /** Answers a line, or one message of it, that goes no further. */
  readonly refuse: (answer: RefusedJson) => void
  readonly most?: number
}

const newline = 0x0a

/**
 * Lets through the lines that hold messages as the endpoint of the service takes them; those of a batch go on one by one.
 * Every other line is answered by `refuse` and goes no further, because the SDK would pass it over in silence. Of a line
 * longer than `most` bytes nothing is kept, and the next one is read.
 */
export function messageLines({ refuse, isMessage, most = mostLineBytes }: MessageLinesOptions): Transform {
  let pieces: Buffer[] = []
  let length = 0
  const add = (piece: Buffer): void => {
    const told = length > most
    length += piece.length
    if (length <= most) pieces.push(piece)
    else if (!told) {
      pieces = []
      refuse(refusedMessage(null, `The message is longer than ${most} bytes.`))
    }
  }
  /** The line that has come to its end, unless it was too long. */
  const finish = (): Buffer | undefined => {
    const line = length > most ? undefined : Buffer.concat(pieces)
    ;[pieces, length] = [[], 0]
    return line
  }
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      let from = 0
      for (let end = chunk.indexOf(newline); end !== -1; end = chunk.indexOf(newline, from)) {
        add(chunk.subarray(from, end + 1))
        from = end + 1
        const line = finish()
        if (line === undefined) continue
        const read = readLine(line, { isMessage, most })
        if (read.kind === 'refused') read.answers.forEach(refuse)
        else for (const one of read.lines) this.push(one)
      }
      add(chunk.subarray(from))
      done()
    },
  })
}
