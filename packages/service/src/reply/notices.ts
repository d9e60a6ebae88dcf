import { type Report, ToolError } from '@gantry/contract'
import type { Codec, TaskRecord } from '../brokers/codecs/codec.ts'
import type { Outgoing, Publisher, Sent } from '../brokers/transports/message.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { createBatch } from '../storage/batch.ts'
import type { Claim, ReplyAddress } from '../storage/calls/call-store.ts'

/** The records of background tasks, where gateways look for them. */
export interface TaskRecords {
  /** Begins a record, unless the key has one; whether it did. */
  open(task: TaskRecord): Promise<boolean>
  /** Completes a record; a key without one stays without. */
  close(task: TaskRecord): Promise<void>
  drop(key: string): Promise<void>
}

export interface NoticesOptions {
  /** By the name that an address calls it. */
  readonly codecs: ReadonlyMap<string, Codec>
  /** By transport. */
  readonly publishers: ReadonlyMap<string, Publisher>
  /** Absent, no gateway has background tasks. */
  readonly tasks?: TaskRecords | undefined
  /** After how long a call that has not ended gets an interim answer; 0 for never. */
  readonly backgroundMs: number
  /** Between two notices of progress of one call, at least. */
  readonly progressMs: number
  /** Whether calls of a tool may get an interim answer. */
  readonly mayBackground: (tool: string) => boolean
  /** Those of the calls that have not ended. */
  readonly unfinished: (callIds: readonly string[]) => Promise<readonly string[]>
  readonly now: () => Date
}

/** What the gateway of a call hears of one attempt. */
export interface AttemptNotices {
  /** Never throws and never waits: of progress that comes too fast the newest is sent. */
  report(report: Report): void
  /** The attempt is over; no further notice of it leaves. */
  close(): void
}

/** What is known of a call that has ended. */
export interface EndedNotices {
  /** Resolves when no notice is under way any more, or after a short time. */
  readonly settled: Promise<void>
  /** Whether its gateway may have got an interim answer, from here or from another process. */
  readonly background: boolean
}

/**
 * What gateways hear of a call before it has ended: that it starts, how far it is, and, when it takes long, an interim
 * answer with the id of a background task.
 *
 * Notices are best effort. They travel apart from answers, which never wait for them for longer than `longestWaitMs`, and
 * none leaves once `ended` was called, so that in one process the outcome is the last thing that a gateway hears of a call.
 * An interim answer is tried again while the call lasts. Each process watches the calls that it admits and those that it
 * executes, so that an interim answer survives the end of either; it may then come twice, with the same task id.
 */
export interface Notices {
  /** A call was admitted here or, when it is `repeated`, one more sender waits for it. */
  admitted(callId: string, tool: string, address: ReplyAddress, repeated: boolean): void
  /** An attempt begins; undefined when the gateway of the call has no place for notices. */
  open(claim: Claim): AttemptNotices | undefined
  ended(callId: string): EndedNotices
  /** Sends a notice behind an answer; resolves when it was sent or given up. */
  send(transport: string, message: Outgoing): Promise<void>
  close(): void
}

/** Calls that are watched at a time; those beyond get no notices. */
const mostWatched = 50_000
/** A broker that has not taken a notice by then does not get it. */
const longestSendMs = 5_000
const longestWaitMs = 2_000
/** Until a topic or stream that refused a notice is tried again: a broker must not be kept busy with refusals. */
const restMs = 15_000
const interimRetryMs = 2_000
const mostRecent = 5_000

interface Waiting {
  readonly address: ReplyAddress
  timer: NodeJS.Timeout
}

interface Watched {
  readonly callId: string
  /** From when on it is watched, which is its admission or, in another process, its first attempt. */
  readonly since: Date
  /** Senders that have no interim answer yet. */
  readonly waiting: Set<Waiting>
  readonly underWay: Set<Promise<unknown>>
  /** This process has watched it from its admission on. */
  admitted: boolean
  attempts: number
  /** An attempt began in this process, which then completes the record of its task. */
  attempted: boolean
  background: boolean
}

export function createNotices(options: NoticesOptions): Notices {
  const { codecs, publishers, tasks, backgroundMs, progressMs, now } = options
  const watched = new Map<string, Watched>()
  const resting = new Map<string, number>()
  /** Calls that ended last. */
  const recent = new Set<string>()
  const lanes = new Map(
    [...publishers].map(([name, publisher]) => [
      name,
      createBatch<Outgoing, Sent>((messages) => publisher.send(messages, AbortSignal.timeout(longestSendMs))),
    ]),
  )
  const asking = createBatch<string, boolean>(async (callIds) => {
    const those = new Set(await options.unfinished(callIds))
    return callIds.map((callId) => those.has(callId))
  })

  /** Whether it was sent; `never` when trying again would be no use. */
  const publish = async (transport: string, message: Outgoing): Promise<Sent['kind']> => {
    const lane = lanes.get(transport)
    if (lane === undefined) return 'never'
    if (performance.now() < (resting.get(message.to) ?? 0)) return 'again'
    const { kind } = await lane.add(message).catch((): Sent => ({ kind: 'again', error: '' }))
    if (kind === 'sent') resting.delete(message.to)
    else resting.set(message.to, performance.now() + restMs)
    // A sender names the stream of its answers, so that refusals may have any number of names.
    if (resting.size > 1_000) resting.clear()
    return kind
  }
  const track = (one: Watched, work: Promise<unknown>): void => {
    const done = work
      .catch(() => undefined)
      .finally(() => {
        one.underWay.delete(done)
        forget(one)
      })
    one.underWay.add(done)
  }
  /** A call that nothing is left to be done for is not watched any more. */
  const forget = (one: Watched): void => {
    if (one.attempts > 0 || one.waiting.size > 0 || one.underWay.size > 0) return
    if (watched.get(one.callId) === one) watched.delete(one.callId)
  }
  const remember = (callId: string): void => {
    recent.add(callId)
    if (recent.size > mostRecent) for (const oldest of recent) return void recent.delete(oldest)
  }
  const isWatched = (one: Watched): boolean => watched.get(one.callId) === one
  const watch = (callId: string): Watched | undefined => {
    const known = watched.get(callId)
    if (known !== undefined || watched.size >= mostWatched) return known
    const [waiting, underWay] = [new Set<Waiting>(), new Set<Promise<unknown>>()]
    const flags = { admitted: false, attempts: 0, attempted: false, background: false }
    const one = { callId, since: now(), waiting, underWay, ...flags }
    watched.set(callId, one)
    return one
  }
  const wait = (one: Watched, address: ReplyAddress): void => {
    const waiting = { address, timer: later(() => track(one, interim(one, waiting)), backgroundMs) }
    one.waiting.add(waiting)
  }
  /** Gives the interim answer, unless the call has ended, here or elsewhere. */
  const interim = async (one: Watched, waiting: Waiting): Promise<void> => {
    const { callId } = one
    const { address } = waiting
    const again = (): void => {
      if (isWatched(one)) waiting.timer = later(() => track(one, interim(one, waiting)), interimRetryMs)
    }
    try {
      const goesOn = one.attempts > 0 || (await asking.add(callId))
      const background = goesOn && isWatched(one) ? codecs.get(address.codec)?.background : undefined
      if (background === undefined) return void one.waiting.delete(waiting)
      const { answer, task } = background(address, { callId }, one.since)
      const opened = await tasks?.open(task)
      if (!isWatched(one)) return
      one.background = true
      const kind = await publish(address.transport, answer)
      if (kind === 'again') return again()
      one.waiting.delete(waiting)
      // Elsewhere it may have ended meanwhile, and its record been looked for before it was there.
      if (opened === true && !one.attempted && !(await asking.add(callId))) await tasks?.drop(task.key)
    } catch (error) {
      if (ToolError.is(error) && !error.retryable) one.waiting.delete(waiting)
      else again()
    }
  }
  const hasInterim = (tool: string, { codec }: ReplyAddress): boolean =>
    backgroundMs > 0 && codecs.get(codec)?.background !== undefined && options.mayBackground(tool)

  return {
    admitted(callId, tool, address, repeated) {
      // A short call may have ended before its admission is reported.
      if (recent.has(callId) || !hasInterim(tool, address)) return
      const one = watch(callId)
      if (one === undefined) return
      if (!repeated) one.admitted = true
      if (repeated || one.waiting.size === 0) wait(one, address)
    },
    open({ callId, fence, call }) {
      const { reply: address, tool } = call
      const codec = address === undefined ? undefined : codecs.get(address.codec)
      if (address === undefined || codec === undefined) return undefined
      const { started, progress } = codec
      const answers = hasInterim(tool, address)
      if (started === undefined && progress === undefined && !answers) return undefined
      const one = watch(callId)
      if (one === undefined) return undefined
      one.attempts += 1
      one.attempted = true
      if (answers && !one.admitted && one.waiting.size === 0) wait(one, address)
      const first = started?.(address, { callId }, now())
      const send = async (message: Outgoing): Promise<void> => {
        if (isWatched(one)) await publish(address.transport, message)
      }
      if (first !== undefined) track(one, send(first))
      const sending = pacedProgress(progressMs, (report, number) => {
        const message = progress?.(address, { callId, fence, number, ...report }, now())
        const sent = message === undefined ? Promise.resolve() : send(message)
        track(one, sent)
        return sent
      })
      return {
        report(report) {
          if (report.kind === 'progress' && progress !== undefined && isWatched(one)) sending.take(report)
        },
        close() {
          sending.close()
          one.attempts -= 1
          forget(one)
        },
      }
    },
    ended(callId) {
      remember(callId)
      const one = watched.get(callId)
      if (one === undefined) return { settled: Promise.resolve(), background: true }
      watched.delete(callId)
      for (const { timer } of one.waiting) clearTimeout(timer)
      one.waiting.clear()
      const background = one.background || !one.admitted
      if (one.underWay.size === 0) return { settled: Promise.resolve(), background }
      const patience = new Promise<void>((resolve) => later(resolve, longestWaitMs))
      const settled = Promise.race([Promise.all(one.underWay), patience]).then(() => undefined)
      return { settled, background }
    },
    async send(transport, message) {
      await publish(transport, message)
    },
    close() {
      for (const { waiting } of watched.values()) for (const { timer } of waiting) clearTimeout(timer)
      watched.clear()
    },
  }
}

type Progress = Pick<Extract<Report, { kind: 'progress' }>, 'progress' | 'total' | 'message'>

/** Sends progress one by one, not more often than every so often; of what comes meanwhile the newest is kept. */
function pacedProgress(everyMs: number, send: (progress: Progress, number: number) => Promise<void>) {
  let newest: Progress | undefined
  let timer: NodeJS.Timeout | undefined
  let sent = 0
  let busy = false
  let closed = false
  const next = (): void => {
    timer = undefined
    if (newest === undefined || busy || closed) return
    const { progress, total, message } = newest
    newest = undefined
    busy = true
    sent += 1
    const given = { ...(total === undefined ? {} : { total }), ...(message === undefined ? {} : { message }) }
    void send({ progress, ...given }, sent)
      .catch(() => undefined)
      .then(() => {
        busy = false
        if (!closed) timer = later(next, everyMs)
      })
  }
  return {
    take(progress: Progress): void {
      newest = progress
      if (timer === undefined && !busy) next()
    },
    close(): void {
      closed = true
      clearTimeout(timer)
    },
  }
}

/** A timer that keeps no process alive. */
function later(work: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(work, ms).unref()
}

/** Whether calls of a tool may get an interim reply; a tool that is not in the catalog does not forbid it. */
export function backgroundRule(snapshots: Pick<Snapshots, 'current'>): NoticesOptions['mayBackground'] {
  return (tool) => {
    try {
      return snapshots.current.executor.catalog.find(tool).tool.background !== false
    } catch {
      return true
    }
  }
}
