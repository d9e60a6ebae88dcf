import type { Report, Result, StreamEnd, StreamEvent } from '@gantry/contract'

/** The number of unread chunks from which on a streaming tool waits. */
const roomForChunks = 16
/** Unread reports kept per kind. Chunks never exceed it, because the tool waits. */
const capacity = { progress: 1, log: 1_000, chunk: Number.POSITIVE_INFINITY } as const

/**
 * The unread reports of a call. Chunks apply backpressure to the tool. Progress and log lines cannot, so newer progress
 * replaces unread progress, and the oldest unread log line is dropped.
 */
class Channel {
  readonly #unread: Report[] = []
  readonly #count = { progress: 0, log: 0, chunk: 0 }
  #end: StreamEnd | undefined
  #error: { readonly error: unknown } | undefined
  #reader: (() => void) | undefined
  #writers: (() => void)[] = []

  push(report: Report): void | Promise<void> {
    if (this.#count[report.kind] >= capacity[report.kind]) this.#forgetOldest(report.kind)
    this.#unread.push(report)
    this.#count[report.kind] += 1
    this.#wakeReader()
    if (report.kind !== 'chunk' || this.#unread.length < roomForChunks) return
    return new Promise((resolve) => this.#writers.push(resolve))
  }

  /** Rejects the reader's next wait. */
  fail(error: unknown): void {
    this.#error = { error }
    this.#wakeReader()
  }

  finish(end: StreamEnd): void {
    this.#end = end
    this.#wakeReader()
  }

  /** The next report, or the end; waits while there is neither. */
  async next(): Promise<Report | StreamEnd> {
    while (true) {
      const report = this.#unread.shift()
      if (report !== undefined) {
        this.#count[report.kind] -= 1
        if (this.#unread.length < roomForChunks) for (const resume of this.#writers.splice(0)) resume()
        return report
      }
      if (this.#end !== undefined) return this.#end
      if (this.#error !== undefined) throw this.#error.error
      await new Promise<void>((resolve) => {
        this.#reader = resolve
      })
    }
  }

  #wakeReader(): void {
    const wake = this.#reader
    this.#reader = undefined
    wake?.()
  }

  #forgetOldest(kind: Report['kind']): void {
    const oldest = this.#unread.findIndex((report) => report.kind === kind)
    this.#unread.splice(oldest, 1)
    this.#count[kind] -= 1
  }
}

/** Starts a call whose reports go to `report` and which `signal` cancels. */
export type StartCall = (report: (report: Report) => void | Promise<void>, signal: AbortSignal) => Promise<Result>

/**
 * A call as events: its reports as they come, then one `done` or `error` with the whole Result.
 * The call starts with the first read. A reader that stops early cancels it, also during a read, and the
 * call has ended when `return` resolves. `for await` does this by itself.
 */
export function streamCall(
  callId: string,
  start: StartCall,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamEvent, void> {
  return new CallStream(callId, start, signal)
}

const streamEnd: IteratorReturnResult<void> = { done: true, value: undefined }

/**
 * Not a generator function, because those queue `return` behind a pending read.
 *
 * States:
 * - fresh: not read yet; the call has not started.
 * - running: from the first read until the end is read or the reader returns.
 * - ended: yields nothing more.
 */
class CallStream implements AsyncGenerator<StreamEvent, void> {
  readonly #callId: string
  readonly #start: StartCall
  readonly #signal: AbortSignal | undefined
  readonly #readerLeft = new AbortController()
  readonly #channel = new Channel()
  #call: Promise<void> | undefined
  #ended = false
  #id = 0

  constructor(callId: string, start: StartCall, signal: AbortSignal | undefined) {
    this.#callId = callId
    this.#start = start
    this.#signal = signal
  }

  async next(): Promise<IteratorResult<StreamEvent, void>> {
    if (this.#ended) return streamEnd
    this.#call ??= this.#begin()
    const event = await this.#channel.next()
    if (this.#ended) return streamEnd
    this.#ended = event.kind === 'done' || event.kind === 'error'
    if (this.#ended) await this.#call
    this.#id += 1
    return { done: false, value: { ...event, id: this.#id, callId: this.#callId } }
  }

  async return(): Promise<IteratorResult<StreamEvent, void>> {
    this.#ended = true
    this.#readerLeft.abort(new Error('The reader of the stream stopped reading.'))
    await this.#call
    return streamEnd
  }

  async throw(error: unknown): Promise<IteratorResult<StreamEvent, void>> {
    await this.return()
    throw error
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }

  async #begin(): Promise<void> {
    const either =
      this.#signal === undefined ? this.#readerLeft.signal : AbortSignal.any([this.#signal, this.#readerLeft.signal])
    try {
      this.#channel.finish(endOf(await this.#start((report) => this.#channel.push(report), either)))
    } catch (error) {
      // A call never rejects; if it does against its contract, the reader must not wait for ever.
      this.#channel.fail(error)
    }
  }
}

function endOf(result: Result): StreamEnd {
  return result.error === undefined ? { kind: 'done', result } : { kind: 'error', error: result.error, result }
}
