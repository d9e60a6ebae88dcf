import { type Report, ToolError } from '@gantry/contract'
import type { Codec, TaskRecord } from '../brokers/codecs/codec.ts'
import type { Outgoing, Publisher, Sent } from '../brokers/transports/transport.ts'
import type { Snapshots } from '../config/snapshots.ts'
import { createBatch } from '../storage/batch.ts'
import type { Claim, ReplyAddress } from '../storage/calls/call-store.ts'

/** The records of background tasks, as gateways read them. */
export interface TaskRecords {
  /** Begins a record, unless the key has one; resolves with whether it did. */
  open(task: TaskRecord): Promise<boolean>
  /** Completes a record; does not create one. */
  close(task: TaskRecord): Promise<void>
  drop(key: string): Promise<void>
}

export interface NoticesOptions {
  /** By the codec name of a reply address. */
  readonly codecs: ReadonlyMap<string, Codec>
  /** By transport. */
  readonly publishers: ReadonlyMap<string, Publisher>
  /** Absent when no gateway has background tasks. */
  readonly tasks?: TaskRecords | undefined
  /** The time after which a call that has not ended gets an interim answer; 0 for never. */
  readonly backgroundMs: number
  /** The least time between two progress notices of one call. */
  readonly progressMs: number
  /** Whether calls of a tool may get an interim answer. */
  readonly mayBackground: (tool: string) => boolean
  /** Filters the calls to those that have not ended. */
  readonly unfinished: (callIds: readonly string[]) => Promise<readonly string[]>
  readonly now: () => Date
}

/** The notices of one attempt to the gateway of its call. */
export interface AttemptNotices {
  /** Never throws and never waits: progress that arrives too fast is coalesced to the newest. */
  report(report: Report): void
  /** Ends the notices of the attempt. */
  close(): void
}

/** The notices of a call that has ended. */
export interface EndedNotices {
  /** Resolves when no notice is in flight any more, or after a short time. */
  readonly settled: Promise<void>
  /** Whether its gateway may have got an interim answer, from this or another process. */
  readonly background: boolean
}

/**
 * The notices that gateways get of a call before its end: its start, its progress and, when it takes long, an interim
 * answer with the id of a background task.
 * | Notices are best effort. They are sent apart from replies, which wait for them at most `longestWaitMs`, and none is
 * sent once `ended` was called, so that in one process the outcome is the last message that a gateway gets. An interim
 * answer is retried while the call lasts. Each process watches the calls that it admits and those that it executes, so
 * that an interim answer survives the loss of either; it may then arrive twice, with the same task id.
 */
export interface Notices {
  /** Called when a call was admitted here or, if `repeated`, when one more sender waits for it. */
  admitted(callId: string, tool: string, address: ReplyAddress, repeated: boolean): void
  /** Called when an attempt begins; undefined when the gateway of the call accepts no notices. */
  open(claim: Claim): AttemptNotices | undefined
  ended(callId: string): EndedNotices
  /** Sends a notice after a reply; resolves when it was sent or given up. */
  send(transport: string, message: Outgoing): Promise<void>
  close(): void
}

/** The most watched calls; those beyond get no notices. */
const mostWatched = 50_000
/** A broker that has not accepted a notice by then does not get it. */
const longestSendMs = 5_000
const longestWaitMs = 2_000
/** The pause of a topic or stream that refused a notice, so that refusals do not load the broker. */
const restMs = 15_000
const interimRetryMs = 2_000
const mostRecent = 5_000

interface Waiting {
  readonly address: ReplyAddress
  timer: NodeJS.Timeout
}

interface Watched {
  readonly callId: string
  /** The start of watching: its admission or, in another process, its first attempt. */
  readonly since: Date
  /** Senders that have no interim answer yet. */
  readonly waiting: Set<Waiting>
  readonly underWay: Set<Promise<unknown>>
  /** Whether this process watches the call since its admission. */
  admitted: boolean
  attempts: number
  /** Whether an attempt began in this process, which then completes the record of its task. */
  attempted: boolean
  background: boolean
}

export function createNotices(options: NoticesOptions): Notices {
  const { codecs, publishers, tasks, backgroundMs, progressMs, now } = options
  const watched = new Map<string, Watched>()
  const resting = new Map<string, number>()
  /** The ids of the calls that ended last. */
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

  /** The result of one send; `never` when a retry cannot succeed. */
  const publish = async (transport: string, message: Outgoing): Promise<Sent['kind']> => {
    const lane = lanes.get(transport)
    if (lane === undefined) return 'never'
    if (performance.now() < (resting.get(message.to) ?? 0)) return 'again'
    const { kind } = await lane.add(message).catch((): Sent => ({ kind: 'again', error: '' }))
    if (kind === 'sent') resting.delete(message.to)
    else resting.set(message.to, performance.now() + restMs)
    // A sender names its reply stream, so the number of refusing streams is unbounded.
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
  /** Stops watching a call without pending notices. */
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
  /** Sends the interim answer, unless the call has ended, in this or another process. */
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
      // The call may have ended meanwhile in another process, which completed no record because there was none yet.
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
      // A short call may end before its admission is reported.
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

/**
 * Sends progress one at a time, at most once in each interval; of progress that arrives meanwhile the newest is kept.
 */
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

/** A timer that does not keep the process alive. */
function later(work: () => void, ms: number): NodeJS.Timeout {
  return setTimeout(work, ms).unref()
}

/** Whether calls of a tool may get an interim answer; true for a tool that is not in the catalog. */
export function backgroundRule(snapshots: Pick<Snapshots, 'current'>): NoticesOptions['mayBackground'] {
  return (tool) => {
    try {
      return snapshots.current.executor.catalog.find(tool).tool.background !== false
    } catch {
      return true
    }
  }
}
