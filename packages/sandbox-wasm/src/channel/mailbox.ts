import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'

/**
 * A way for texts from one thread to another, in order, through memory that both see: for those that look, nothing of the
 * system is asked. What is too long goes by a port, and its place in the order is kept.
 * - Concurrency: one writes, one reads.
 */
export interface Mailbox {
  /** How many were written and read; 32-bit, and they wrap around together. */
  readonly counts: Int32Array<SharedArrayBuffer>
  /** Length of the text in each place, or -1 when it went by the port. */
  readonly lengths: Int32Array<SharedArrayBuffer>
  readonly texts: Uint8Array<SharedArrayBuffer>
}

const places = 32
const placeBytes = 2_048
export const written = 0
export const read = 1
const byPort = -1

export function createMailbox(): Mailbox {
  return {
    counts: new Int32Array(new SharedArrayBuffer(8)),
    lengths: new Int32Array(new SharedArrayBuffer(4 * places)),
    texts: new Uint8Array(new SharedArrayBuffer(places * placeBytes)),
  }
}

/** Puts a text in; false when the mailbox is full. Wakes a reader that sleeps on the written count. */
export function createWriter({ counts, lengths, texts }: Mailbox, port: MessagePort): (text: string) => boolean {
  // One for each place, because Node looks long at whatever says where in a buffer it is to write.
  const rooms = Array.from({ length: places }, (_, place) => Buffer.from(texts.buffer, place * placeBytes, placeBytes))
  return (text) => {
    const count = Atomics.load(counts, written)
    if (((count - Atomics.load(counts, read)) | 0) >= places) return false
    const place = (count >>> 0) % places
    // No UTF-8 is longer than three bytes for each unit, so that most texts need not be measured.
    if (text.length * 3 <= placeBytes) lengths[place] = rooms[place]?.write(text) ?? 0
    else {
      port.postMessage(text)
      lengths[place] = byPort
    }
    Atomics.add(counts, written, 1)
    Atomics.notify(counts, written)
    return true
  }
}

/** Takes the next text out; undefined when there is none. Wakes a writer that sleeps on the read count. */
export function createReader({ counts, lengths, texts }: Mailbox, port: MessagePort): () => string | undefined {
  const bytes = Buffer.from(texts.buffer)
  return () => {
    const count = Atomics.load(counts, read)
    if (Atomics.load(counts, written) === count) return undefined
    const place = (count >>> 0) % places
    const length = lengths[place] ?? 0
    const start = place * placeBytes
    const text =
      length === byPort
        ? (receiveMessageOnPort(port)?.message as string)
        : bytes.toString('utf8', start, start + length)
    Atomics.add(counts, read, 1)
    Atomics.notify(counts, read)
    return text
  }
}

/** Waits until there is a place again; for a thread that has nothing else to do. */
export function waitForPlace({ counts }: Mailbox): void {
  const seen = Atomics.load(counts, read)
  if (((Atomics.load(counts, written) - seen) | 0) >= places) Atomics.wait(counts, read, seen)
}
