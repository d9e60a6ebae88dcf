import { setTimeout as pause } from 'node:timers/promises'
import type { Workers } from './broker-workers.ts'
import { createDatabase } from './service-run.ts'

/** Messages that wait in a broker until somebody works on them. */
export interface BrokerBacklog {
  /** Empties the broker, and puts so many messages into it. */
  fill(count: number): Promise<void>
  /** Has them worked on; the database is empty. */
  start(databaseUrl: string): Promise<Workers>
  /** Outcomes that whoever sent the messages can have by now. */
  done(): Promise<number>
  /** Rejects when the last of them is not the one that was asked for. */
  check(): Promise<void>
}

/** Between two looks at the broker. */
const everyMs = 10
const longestMs = 180_000

/** Outcomes a second, as seen from outside: from the first `warm` on, because a start is in those, to the last. */
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

/** When so many were done, and how many there were then. */
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
