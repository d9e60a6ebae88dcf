import { type Report, type StreamEvent, ToolError } from '@gantry/contract'
import type { Holder } from '../../storage/calls/call-store.ts'
import { type EventRecords, eventId, mostReports, type NewEvent } from '../../storage/events.ts'
import { createWakeSignal } from '../../storage/wake-signal.ts'

/** A report with the id under which others will read it. */
export type ReportEvent = Report & Pick<StreamEvent, 'id' | 'callId'>

/** Takes the reports of one attempt. */
export interface CallReports {
  /** A promise makes a streaming tool wait, because the database is slow. It never rejects. */
  report(report: Report): void | Promise<void>
  /**
   * Stores what is left, and takes no more. To be awaited before the call finishes, because events of a finished call
   * are not stored. It does not wait for a database that fails; then it answers what is to be kept with the outcome.
   */
  end(): Promise<Unstored>
}

/** What an attempt reported and the store did not take. */
export interface Unstored {
  /** To be stored with the outcome; the last one says so when some were lost. */
  readonly events: readonly NewEvent[]
  /** How many reports were given up because the store fails. */
  readonly lost: number
}

/**
 * Stores what running calls report, many events in one statement: the first at once, then those that gathered meanwhile.
 *
 * A database that is slow makes streaming tools wait. One that fails makes no tool wait: what is not stored when its call
 * ends goes with the outcome, and what does not fit into the memory that is set aside is lost. Of progress the newest is
 * kept then; lost log lines and chunks are reported by log events of their call. A call that reports more than is kept of one loses the rest in the same way.
 */
export interface EventWriter {
  open(holder: Holder): CallReports
  /** Hears what is reported here, at once and before it is stored, until the function it answers is called. */
  on(callId: string, hear: (event: ReportEvent) => void): () => void
  /** Stores what is left; what is reported later is lost. */
  close(): Promise<void>
}

interface EventWriterOptions {
  readonly records: Pick<EventRecords, 'append'>
  /** Time between two statements; 50 ms. */
  readonly gatherMs?: number
  /** Events kept of one attempt; 10,000. */
  readonly callEvents?: number
  /** Bytes kept of one attempt; 4 MiB. */
  readonly callBytes?: number
  /** Bytes that wait for the database, of all calls together; 32 MiB. */
  readonly waitingBytes?: number
}

/** Characters of reports that go with an outcome: both may have to fit into a line of the spool. */
const mostWithOutcome = 1_048_576

/** Beyond its limit, a call's progress is kept this often. */
const rareProgressMs = 5_000

export function createEventWriter(options: EventWriterOptions): EventWriter {
  const { records, gatherMs = 50, callEvents = 10_000, callBytes = 4_194_304, waitingBytes = 33_554_432 } = options
  const queue = createEventQueue({ records, gatherMs, bytes: waitingBytes })
  const limits = { events: callEvents, bytes: callBytes }
  const hearers = new Map<string, Set<(event: ReportEvent) => void>>()

  const tell = (event: ReportEvent): void => {
    for (const hear of hearers.get(event.callId) ?? []) {
      try {
        hear(event)
      } catch {
        // A listener's fault is not the call's.
      }
    }
  }
  return {
    open: (holder) => openReports(holder, queue, limits, tell),
    on(callId, hear) {
      const those = hearers.get(callId) ?? new Set()
      hearers.set(callId, those.add(hear))
      return () => {
        those.delete(hear)
        if (those.size === 0 && hearers.get(callId) === those) hearers.delete(callId)
      }
    },
    close: () => queue.close(),
  }
}

type Progress = Extract<Report, { kind: 'progress' }>

/** Numbers the reports of one attempt, and leaves out what is too much. */
function openReports(
  { callId, fence }: Holder,
  queue: EventQueue,
  limits: { readonly events: number; readonly bytes: number },
  tell: (event: ReportEvent) => void,
): CallReports {
  let count = 0
  let bytes = 0
  let place = 0
  let told = false
  let lost = 0
  let ended = false
  let newest: Progress | undefined
  let progressAt = Number.NEGATIVE_INFINITY

  const keep = (report: Report, text: string): void => {
    if (count >= mostReports) return
    count += 1
    bytes += text.length
    const id = eventId(fence, count)
    place = queue.add({ callId, fence, id, event: text }, () => {
      lost += 1
    })
    tell({ ...report, id, callId })
  }
  const tellOfLoss = (over: boolean): void => {
    if (!over) lost += 1
    if (told) return
    told = true
    const why = over ? 'they are too many' : 'the store fails'
    const message = `From here on not all log lines and chunks of this call are kept: ${why}.`
    const log: Report = { kind: 'log', level: 'warn', message }
    keep(log, JSON.stringify(log))
  }
  const keepNewest = (): void => {
    if (newest !== undefined) keep(newest, JSON.stringify(newest))
    newest = undefined
  }
  const keepProgress = (report: Progress, over: boolean): void => {
    newest = over ? withoutMessage(report) : report
    const at = performance.now()
    if (queue.full || (over && at - progressAt < rareProgressMs)) return
    progressAt = at
    keepNewest()
  }
  return {
    report(report) {
      if (ended) return
      const text = JSON.stringify(report)
      const over = count >= limits.events || bytes + text.length > limits.bytes
      if (report.kind === 'progress') return keepProgress(report, over)
      if (over || queue.full) return tellOfLoss(over)
      keep(report, text)
      if (report.kind === 'chunk') return queue.caughtUp()
    },
    async end() {
      ended = true
      if (!queue.full) keepNewest()
      await queue.stored(place)
      const unstored = queue.unstored({ callId, fence }, place)
      const events = fitting(unstored)
      lost += unstored.length - events.length
      if (lost === 0) return { events, lost }
      count = Math.min(count + 1, mostReports)
      const message = `${lost} reports of this call were lost, because the store failed.`
      const note: Report = { kind: 'log', level: 'warn', message }
      return { events: [...events, { callId, fence, id: eventId(fence, count), event: JSON.stringify(note) }], lost }
    },
  }
}

/** As many of the oldest as go with an outcome. */
function fitting(events: readonly NewEvent[]): readonly NewEvent[] {
  let characters = 0
  const end = events.findIndex(({ event }) => {
    characters += event.length
    return characters > mostWithOutcome
  })
  return end < 0 ? events : events.slice(0, end)
}

/** What is left of progress that is kept beyond the limit must be small. */
function withoutMessage({ kind, progress, total }: Progress): Progress {
  return { kind, progress, ...(total === undefined ? {} : { total }) }
}

/** Events that wait to be stored, in order and within bounds. */
interface EventQueue {
  /** Takes an event and answers its place in the row, for `stored`; `lost` is called when it is given up. */
  add(event: NewEvent, lost: () => void): number
  /** There is no room for what can be done without. */
  readonly full: boolean
  /** Resolves once the database has caught up, or fails, so that there is no use in waiting for it. */
  caughtUp(): void | Promise<void>
  /** Resolves once everything up to a place is stored, or the database fails. */
  stored(place: number): void | Promise<void>
  /** What waits of one attempt up to a place, oldest first. It stays here, because storing it twice is harmless. */
  unstored(holder: Holder, place: number): readonly NewEvent[]
  /** Stores what waits, unless the database fails, and nothing more. */
  close(): Promise<void>
}

interface EventQueueOptions {
  readonly records: Pick<EventRecords, 'append'>
  readonly gatherMs: number
  readonly bytes: number
}

const perStatement = 200
const statementBytes = 1_048_576
/** Events beyond which the database is behind. */
const behind = 1_000
/** What an event takes beside its text. */
const overhead = 200
const longestPauseMs = 5_000

interface Waiting {
  readonly event: NewEvent
  readonly bytes: number
  readonly lost: () => void
}

/**
 * One statement at a time, so that the events of a call are stored in their order. The queue *rests* while it is empty.
 * The first event makes it *write*; after each statement it *gathers* for a moment, unless there is enough for another
 * one or somebody waits. A statement that failed because the database is away is repeated after a pause, longer each
 * time: *failing*, until one succeeds. Any other failure is of the events themselves, which are lost.
 */
function createEventQueue({ records, gatherMs, bytes: most }: EventQueueOptions): EventQueue {
  const waiting: Waiting[] = []
  const wakeSignal = createWakeSignal()
  const over = new AbortController()
  let bytes = 0
  let added = 0
  let done = 0
  let failing = false
  let writing: Promise<void> | undefined
  let watchers: { readonly place: number; readonly resolve: () => void }[] = []
  let behindThem: (() => void)[] = []

  const isBehind = (): boolean => !failing && (waiting.length >= behind || bytes >= most / 2)
  const settle = (failed: boolean): void => {
    for (const { resolve } of watchers.filter(({ place }) => failed || place <= done)) resolve()
    watchers = watchers.filter(({ place }) => !failed && place > done)
    if (isBehind()) return
    for (const resolve of behindThem) resolve()
    behindThem = []
  }
  /** Stores the next events; answers whether the database took them or can never take them. */
  const writeNext = async (): Promise<boolean> => {
    const next = nextOf(waiting)
    try {
      await records.append(next.map(({ event }) => event))
      failing = false
    } catch (error) {
      failing = ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
      if (!failing) for (const { lost } of next) lost()
    }
    if (!failing) {
      waiting.splice(0, next.length)
      done += next.length
      bytes -= next.reduce((sum, { bytes }) => sum + bytes, 0)
    }
    settle(failing)
    return !failing
  }
  const write = async (): Promise<void> => {
    // What is reported in the same turn of the event loop goes together.
    await new Promise((resolve) => setImmediate(resolve))
    let pauseMs = gatherMs
    while (waiting.length > 0 && !over.signal.aborted) {
      const written = await writeNext()
      pauseMs = written ? gatherMs : Math.min(longestPauseMs, pauseMs * 2)
      const more = written && (waiting.length >= perStatement || watchers.length > 0)
      if (!more) await wakeSignal.wait(pauseMs, over.signal)
    }
    writing = undefined
  }
  const stored: EventQueue['stored'] = (place) => {
    if (place <= done || failing || over.signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    watchers.push({ place, resolve })
    wakeSignal.ring()
    return promise
  }
  return {
    add(event, lost) {
      const size = event.event.length + overhead
      if (over.signal.aborted || bytes >= 2 * most) {
        lost()
        return added
      }
      waiting.push({ event, bytes: size, lost })
      bytes += size
      added += 1
      writing ??= write()
      if (waiting.length === perStatement && !failing) wakeSignal.ring()
      return added
    },
    get full() {
      return bytes >= most
    },
    caughtUp: () => (isBehind() ? new Promise((resolve) => behindThem.push(resolve)) : undefined),
    stored,
    unstored({ callId, fence }, place) {
      if (place <= done) return []
      return waiting.flatMap(({ event }) => (event.callId === callId && event.fence === fence ? [event] : []))
    },
    async close() {
      await stored(added)
      over.abort()
      await writing
    },
  }
}

/** As many as go well into one statement; at least one. */
function nextOf(waiting: readonly Waiting[]): readonly Waiting[] {
  let bytes = 0
  let count = 0
  for (const event of waiting.slice(0, perStatement)) {
    bytes += event.bytes
    if (count > 0 && bytes > statementBytes) break
    count += 1
  }
  return waiting.slice(0, count)
}
