import { ToolError } from '@gantry/contract'
import type { Holder } from '../../storage/calls/call-store.ts'
import type { EventRecords, NewEvent } from '../../storage/events.ts'
import { createBell } from '../../storage/wake-signal.ts'

/** Events that wait to be stored, in order and within bounds. */
export interface EventQueue {
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

export interface EventQueueOptions {
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
export function createEventQueue({ records, gatherMs, bytes: most }: EventQueueOptions): EventQueue {
  const waiting: Waiting[] = []
  const bell = createBell()
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
      if (!more) await bell.wait(pauseMs, over.signal)
    }
    writing = undefined
  }
  const stored: EventQueue['stored'] = (place) => {
    if (place <= done || failing || over.signal.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    watchers.push({ place, resolve })
    bell.ring()
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
      if (waiting.length === perStatement && !failing) bell.ring()
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
