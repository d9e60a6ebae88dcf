import type { Report, StreamEvent } from '@gantry/contract'
import type { Holder } from '../../storage/calls/call-store.ts'
import { type EventRecords, eventId, mostReports, type NewEvent } from '../../storage/events.ts'
import { createEventQueue, type EventQueue } from './event-queue.ts'

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

export interface EventWriterOptions {
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
