import type { Report, Result, StreamEnd, StreamEvent } from '@gantry/contract'

/** Unread chunks after which a streaming tool has to wait. */
const roomForChunks = 16
/** Unread reports kept of each kind; a tool never gets beyond its unread chunks, because it waits for them. */
const room = { progress: 1, log: 1_000, chunk: Number.POSITIVE_INFINITY } as const

/**
 * What a call reports, waiting to be read. Chunks make the tool wait when the reader is slow. Progress and log lines
 * cannot make it wait, so unread progress is replaced by newer, and the oldest unread log line gives way.
 */
class Channel {
  readonly #unread: Report[] = []
  readonly #count = { progress: 0, log: 0, chunk: 0 }
  #end: StreamEnd | undefined
  #error: { readonly error: unknown } | undefined
  #reader: (() => void) | undefined
  #writers: (() => void)[] = []

  push(report: Report): void | Promise<void> {
    if (this.#count[report.kind] >= room[report.kind]) this.#forgetOldest(report.kind)
    this.#unread.push(report)
    this.#count[report.kind] += 1
    this.#wakeReader()
    if (report.kind !== 'chunk' || this.#unread.length < roomForChunks) return
    return new Promise((resolve) => this.#writers.push(resolve))
  }

  /** Makes the reader's next wait reject. */
  fail(error: unknown): void {
    this.#error = { error }
    this.#wakeReader()
  }

  finish(end: StreamEnd): void {
    this.#end = end
    this.#wakeReader()
  }

  /** The next report, then the end; waits while there is neither. */
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
 * The call starts with the first read. A reader that stops early cancels it, also while a read is under way, and the
 * call has ended when `return` resolves; `for await` does all of this by itself.
 */
export function streamCall(
  callId: string,
  start: StartCall,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamEvent, void> {
  return new CallStream(callId, start, signal)
}

const over: IteratorReturnResult<void> = { done: true, value: undefined }

/**
 * Not a generator function, because those let `return` wait behind a pending read.
 * It is *fresh* until the first read, *running* until the end was read or the reader left, then *over* for good.
 */
class CallStream implements AsyncGenerator<StreamEvent, void> {
  readonly #callId: string
  readonly #start: StartCall
  readonly #signal: AbortSignal | undefined
  readonly #gone = new AbortController()
  readonly #channel = new Channel()
  #call: Promise<void> | undefined
  #over = false
  #id = 0

  constructor(callId: string, start: StartCall, signal: AbortSignal | undefined) {
    this.#callId = callId
    this.#start = start
    this.#signal = signal
  }

  async next(): Promise<IteratorResult<StreamEvent, void>> {
    if (this.#over) return over
    this.#call ??= this.#begin()
    const event = await this.#channel.next()
    if (this.#over) return over
    this.#over = event.kind === 'done' || event.kind === 'error'
    if (this.#over) await this.#call
    this.#id += 1
    return { done: false, value: { ...event, id: this.#id, callId: this.#callId } }
  }

  async return(): Promise<IteratorResult<StreamEvent, void>> {
    this.#over = true
    this.#gone.abort(new Error('The reader of the stream went away.'))
    await this.#call
    return over
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
    const either = this.#signal === undefined ? this.#gone.signal : AbortSignal.any([this.#signal, this.#gone.signal])
    try {
      this.#channel.finish(endOf(await this.#start((report) => this.#channel.push(report), either)))
    } catch (error) {
      // A call never rejects; if it should, its reader must not wait for ever.
      this.#channel.fail(error)
    }
  }
}

function endOf(result: Result): StreamEnd {
  return result.error === undefined ? { kind: 'done', result } : { kind: 'error', error: result.error, result }
}
