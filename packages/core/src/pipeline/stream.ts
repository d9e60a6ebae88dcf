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
 * A reader that stops early cancels the call, and the call has ended when the reader's loop has.
 */
export async function* streamCall(
  callId: string,
  start: StartCall,
  signal: AbortSignal | undefined,
): AsyncGenerator<StreamEvent, void> {
  const gone = new AbortController()
  const channel = new Channel()
  const either = signal === undefined ? gone.signal : AbortSignal.any([signal, gone.signal])
  const call = start((report) => channel.push(report), either).then((result) => channel.finish(endOf(result)))
  let ended = false
  try {
    for (let id = 1; !ended; id++) {
      const event = await channel.next()
      ended = event.kind === 'done' || event.kind === 'error'
      yield { ...event, id, callId }
    }
  } finally {
    if (!ended) gone.abort(new Error('The reader of the stream went away.'))
    await call
  }
}

function endOf(result: Result): StreamEnd {
  return result.error === undefined ? { kind: 'done', result } : { kind: 'error', error: result.error, result }
}
