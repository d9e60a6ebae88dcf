import { type MessagePort, receiveMessageOnPort } from 'node:worker_threads'

/**
 * A mailbox for texts from one thread to another, in order, through shared memory: a polling reader needs no system
 * call. A text that is too long goes through a port, and keeps its position in the order.
 * - Concurrency: one writer, one reader.
 */
export interface Mailbox {
  /** Numbers of texts written and read; 32-bit counters that wrap around. */
  readonly counts: Int32Array<SharedArrayBuffer>
  /** Length of the text in each slot, or -1 when it went through the port. */
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

/** Writes a text; false when the mailbox is full. Wakes a reader that sleeps on the written count. */
export function createWriter({ counts, lengths, texts }: Mailbox, port: MessagePort): (text: string) => boolean {
  // A view for each slot, because Node's checks of an offset and a length are slow.
  const rooms = Array.from({ length: places }, (_, place) => Buffer.from(texts.buffer, place * placeBytes, placeBytes))
  return (text) => {
    const count = Atomics.load(counts, written)
    if (((count - Atomics.load(counts, read)) | 0) >= places) return false
    const place = (count >>> 0) % places
    // UTF-8 needs at most three bytes per UTF-16 unit, so most texts need not be measured.
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

/** Reads the next text; undefined when there is none. Wakes a writer that sleeps on the read count. */
export function createReader({ counts, lengths, texts }: Mailbox, port: MessagePort): () => string | undefined {
  const bytes = Buffer.from(texts.buffer)
  return () => {
    const count = Atomics.load(counts, read)
    if (Atomics.load(counts, written) === count) return undefined
    const place = (count >>> 0) % places
    const length = lengths[place] ?? 0
    const start = place * placeBytes
    const text = length === byPort ? receiveMessageOnPort(port)?.message : bytes.toString('utf8', start, start + length)
    Atomics.add(counts, read, 1)
    Atomics.notify(counts, read)
    return text
  }
}

/** Blocks until a slot is free; for a thread that has nothing else to do. */
export function waitForPlace({ counts }: Mailbox): void {
  const seen = Atomics.load(counts, read)
  if (((Atomics.load(counts, written) - seen) | 0) >= places) Atomics.wait(counts, read, seen)
}

/**
 * Whether to spin for a message before sleeping: sleeping and waking takes longer than a fast response. One success
 * resets the count of failures, so that a slow moment does not slow a fast pair of threads permanently. After
 * repeated failures only one wait in sixteen spins.
 */
export interface SpinPolicy {
  /** Called before each wait. */
  shouldSpin(): boolean
  /** Records whether a spin got a message. */
  record(paid: boolean): void
}

const mostInVain = 8
const nowAndThen = 16

export function createSpinPolicy(): SpinPolicy {
  let inVain = 0
  let waits = 0
  return {
    shouldSpin() {
      if (inVain < mostInVain) return true
      waits = (waits + 1) % nowAndThen
      return waits === 0
    },
    record(paid) {
      inVain = paid ? 0 : inVain + 1
    },
  }
}
