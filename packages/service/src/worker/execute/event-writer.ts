import { type Report, type StreamEvent, ToolError } from '@gantry/contract'
import type { Bus } from '../../observe/bus.ts'
import { observedOperation } from '../../observe/dependency-health.ts'
import type { Holder } from '../../storage/calls/call-store.ts'
import { type EventRecords, eventId, mostReports, type NewEvent } from '../../storage/events.ts'
import { createWakeSignal } from '../../storage/wake-signal.ts'

/** A report with its event id. */
export type ReportEvent = Report & Pick<StreamEvent, 'id' | 'callId'>

/** Receives the reports of one attempt. */
export interface CallReports {
  /** A promise makes a streaming tool wait, because the database is slow. It never rejects. */
  report(report: Report): void | Promise<void>
  /**
   * Stores the remaining reports, and accepts no more. Must be awaited before the call finishes, because events of a
   * finished call are not stored. It does not wait for a failing database; then it resolves with the events to store
   * with the outcome.
   */
  end(): Promise<Unstored>
}

/** Reports of an attempt that are not stored. */
export interface Unstored {
  /** To be stored with the outcome; the last one notes how many were lost. */
  readonly events: readonly NewEvent[]
  /** The number of reports that were dropped because the store fails. */
  readonly lost: number
}

/**
 * Stores the reports of running calls, many events in one statement: the first at once, then those that arrived
 * meanwhile.
 * | A slow database makes streaming tools wait. A failing one makes no tool wait: events that are not stored when their
 * call ends go with the outcome, and events beyond the memory limit are lost. Of progress the newest is kept then; lost
 * log lines and chunks are reported by log events of their call. A call that exceeds its own limit loses the rest in
 * the same way.
 */
export interface EventWriter {
  open(holder: Holder): CallReports
  /** Calls the listener with each report of this process before it is stored, until the returned function is called. */
  on(callId: string, listener: (event: ReportEvent) => void): () => void
  /** Stores the remaining events; later reports are lost. */
  close(): Promise<void>
}

interface EventWriterOptions {
  readonly bus: Bus
  readonly records: Pick<EventRecords, 'append'>
  /** The time between two statements; 50 ms. */
  readonly gatherMs?: number
  /** Events kept of one attempt; 10,000. */
  readonly callEvents?: number
  /** Bytes kept of one attempt; 4 MiB. */
  readonly callBytes?: number
  /** Bytes that wait for the database, of all calls together; 32 MiB. */
  readonly waitingBytes?: number
}

/** The most characters of reports that go with an outcome: both must fit into a line of the spool. */
const mostWithOutcome = 1_048_576

/** The interval at which progress is kept beyond the limit of a call. */
const rareProgressMs = 5_000

export function createEventWriter(options: EventWriterOptions): EventWriter {
  const { bus, records, gatherMs = 50, callEvents = 10_000, callBytes = 4_194_304, waitingBytes = 33_554_432 } = options
  const queue = createEventQueue({ bus, records, gatherMs, bytes: waitingBytes })
  const limits = { events: callEvents, bytes: callBytes }
  const listeners = new Map<string, Set<(event: ReportEvent) => void>>()

  const tell = (event: ReportEvent): void => {
    for (const listener of listeners.get(event.callId) ?? []) {
      try {
        listener(event)
      } catch {
        // A listener that throws does not fail the call.
      }
    }
  }
  return {
    open: (holder) => openReports(holder, queue, limits, tell),
    on(callId, listener) {
      const those = listeners.get(callId) ?? new Set()
      listeners.set(callId, those.add(listener))
      return () => {
        those.delete(listener)
        if (those.size === 0 && listeners.get(callId) === those) listeners.delete(callId)
      }
    },
    close: () => queue.close(),
  }
}

type Progress = Extract<Report, { kind: 'progress' }>

/** Numbers the reports of one attempt, and drops those beyond the limits. */
function openReports(
  { callId, fence }: Holder,
  queue: EventQueue,
  limits: { readonly events: number; readonly bytes: number },
  tell: (event: ReportEvent) => void,
): CallReports {
  let count = 0
  let bytes = 0
  let place = 0
  let reported = false
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
    if (reported) return
    reported = true
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

/** The oldest events, as many as fit with an outcome into a line of the spool. */
function fitting(events: readonly NewEvent[]): readonly NewEvent[] {
  let characters = 0
  const end = events.findIndex(({ event }) => {
    characters += event.length
    return characters > mostWithOutcome
  })
  return end < 0 ? events : events.slice(0, end)
}

/** Progress beyond the limit is kept without its message. */
function withoutMessage({ kind, progress, total }: Progress): Progress {
  return { kind, progress, ...(total === undefined ? {} : { total }) }
}

/** Events that wait to be stored, in order and within bounds. */
interface EventQueue {
  /** Adds an event and returns its position, for `stored`; `lost` is called when it is dropped. */
  add(event: NewEvent, lost: () => void): number
  /** Whether there is no memory left for events that may be dropped. */
  readonly full: boolean
  /** Resolves once the database has caught up, or fails, so that waiting is of no use. */
  caughtUp(): void | Promise<void>
  /** Resolves once everything up to a position is stored, or the database fails. */
  stored(place: number): void | Promise<void>
  /**
   * The waiting events of one attempt up to a position, oldest first. They stay queued, because storing them twice is
   * harmless.
   */
  unstored(holder: Holder, place: number): readonly NewEvent[]
  /** Stores the waiting events, unless the database fails, and accepts no more. */
  close(): Promise<void>
}

interface EventQueueOptions {
  readonly bus: Bus
  readonly records: Pick<EventRecords, 'append'>
  readonly gatherMs: number
  readonly bytes: number
}

const perStatement = 200
const statementBytes = 1_048_576
/** The number of waiting events beyond which the database is behind. */
const behind = 1_000
/** The bytes of an event in addition to its text. */
const overhead = 200
const longestPauseMs = 5_000

interface Waiting {
  readonly event: NewEvent
  readonly bytes: number
  readonly lost: () => void
}

/**
 * Runs one statement at a time, so that the events of a call are stored in order.
 * | ## States
 * - `idle`: no event waits.
 * - `writing`: a statement runs.
 * - `gathering`: events wait for the next statement.
 * - `failing`: the database is unavailable.
 * | ## Transitions
 * - `idle` → `writing`: the first event arrives.
 * - `writing` → `gathering`: a statement succeeded, or the database refused its events for good, which are lost.
 * - `writing` → `failing`: the database is unavailable; the statement is repeated after a pause that grows.
 * - `gathering` → `writing`: the interval has passed, there is enough for a statement, or a caller waits.
 * - `gathering` → `idle`: nothing waits.
 * - `failing` → `gathering`: a statement succeeded.
 */
function createEventQueue({ bus, records, gatherMs, bytes: most }: EventQueueOptions): EventQueue {
  const waiting: Waiting[] = []
  const wakeSignal = createWakeSignal()
  const over = new AbortController()
  let bytes = 0
  let added = 0
  let done = 0
  const storing = observedOperation(bus, { dependency: 'database', operation: 'store events' })
  let writing: Promise<void> | undefined
  let watchers: { readonly place: number; readonly resolve: () => void }[] = []
  let behindThem: (() => void)[] = []

  const isBehind = (): boolean => !storing.failing && (waiting.length >= behind || bytes >= most / 2)
  const settle = (failed: boolean): void => {
    for (const { resolve } of watchers.filter(({ place }) => failed || place <= done)) resolve()
    watchers = watchers.filter(({ place }) => !failed && place > done)
    if (isBehind()) return
    for (const resolve of behindThem) resolve()
    behindThem = []
  }
  /** Stores the next events; resolves with whether they are done: stored, or refused for good. */
  const writeNext = async (): Promise<boolean> => {
    const next = nextOf(waiting)
    try {
      await records.append(next.map(({ event }) => event))
      storing.worked()
    } catch (error) {
      if (ToolError.is(error) && error.code === 'STORE_UNAVAILABLE') storing.failed(error)
      else {
        storing.worked()
        for (const { lost } of next) lost()
      }
    }
    if (!storing.failing) {
      waiting.splice(0, next.length)
      done += next.length
      bytes -= next.reduce((sum, { bytes }) => sum + bytes, 0)
    }
    settle(storing.failing)
    return !storing.failing
  }
  const write = async (): Promise<void> => {
    // Reports of the same turn of the event loop share a statement.
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
    if (place <= done || storing.failing || over.signal.aborted) return
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
      if (waiting.length === perStatement && !storing.failing) wakeSignal.ring()
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

/** As many as fit into one statement; at least one. */
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
