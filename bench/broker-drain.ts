import { setTimeout as pause } from 'node:timers/promises'
import type { Workers } from './broker-workers.ts'
import { createDatabase } from './service-run.ts'

/** A subject whose messages wait in a broker until a worker consumes them. */
export interface BrokerBacklog {
  /** Empties the broker, and adds `count` messages. */
  fill(count: number): Promise<void>
  /** Starts the workers; the database is empty. */
  start(databaseUrl: string): Promise<Workers>
  /** The number of outcomes that the sender can read so far. */
  done(): Promise<number>
  /** Rejects when the last outcome is wrong. */
  check(): Promise<void>
}

/** The interval of polling the broker. */
const everyMs = 10
const longestMs = 180_000

/** Outcomes per second, observed in the broker, without the first `warm`, which include the start. */
export async function drain(backlog: BrokerBacklog, server: string, count: number, warm: number): Promise<number> {
  await backlog.fill(warm + count)
  const database = await createDatabase(server)
  try {
    const workers = await backlog.start(database.url)
    try {
      const first = await reached(backlog, warm)
      const last = await reached(backlog, warm + count)
      await backlog.check()
      return ((last.done - first.done) * 1_000) / (last.at - first.at)
    } finally {
      await workers.stop()
    }
  } finally {
    await database.drop()
  }
}

/** The time when `count` outcomes were reached, and their number then. */
async function reached(backlog: BrokerBacklog, count: number): Promise<{ readonly at: number; readonly done: number }> {
  const late = performance.now() + longestMs
  for (;;) {
    const done = await backlog.done()
    const at = performance.now()
    if (done >= count) return { at, done }
    if (at > late) throw new Error(`only ${done} of ${count} were done in ${longestMs / 1_000} s`)
    await pause(everyMs)
  }
}
