import type { Readable } from 'node:stream'
import { type ContentCheck, checkedStream } from '../checked-stream.ts'

export interface BodyOptions {
  readonly signal: AbortSignal
  /** For the next piece. */
  readonly timeoutMs: number
  readonly check: ContentCheck
  /** What a broken or a silent connection is to the reader. */
  fault(cause: unknown): Error
}

/** The body of an answer as a stream of our own, which owns the connection from here on. */
export function readBody(body: Readable, { signal, timeoutMs, check, fault }: BodyOptions): Readable {
  body.on('error', () => undefined)
  const close = async (): Promise<void> => void body.destroy()
  return checkedStream(piecesInTime(body, timeoutMs, fault), { signal, check, close })
}

async function* piecesInTime(body: Readable, timeoutMs: number, fault: BodyOptions['fault']) {
  const source: AsyncIterator<Uint8Array> = body[Symbol.asyncIterator]()
  for (;;) {
    const { value, done } = await inTime(source.next(), timeoutMs).catch((cause: unknown) => {
      throw fault(cause)
    })
    if (done) return
    yield value
  }
}

/** Counts the time only while somebody waits for the piece. */
async function inTime<T>(work: Promise<T>, timeoutMs: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error('No bytes came in time.')), timeoutMs)
  })
  return Promise.race([work, late]).finally(() => clearTimeout(timer))
}
