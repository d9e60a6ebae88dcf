import { hostname } from 'node:os'
import type { WorkerView } from '@gantry/contract'
import type { Queries } from './databases/database.ts'

/** A process as it tells of itself. */
interface WorkerReport {
  readonly worker: string
  readonly host: string
  readonly pid: number
  readonly roles: readonly string[]
  readonly slots: number
  readonly running: number
  readonly state: Exclude<WorkerView['state'], 'gone'>
}

/** Who works, as last heard, in the table `workers`. Nothing depends on it: leases alone decide who may work. */
export interface WorkerRecords {
  /**
   * Says that it is there and how it is doing; to be said every ten seconds. Rows that are a day old go. Resolves with the
   * time of the database.
   */
  report(worker: WorkerReport): Promise<Date>
  /** The time of the database. */
  time(): Promise<Date>
  leave(worker: string): Promise<void>
  /** Those not heard of for half a minute are `gone`. */
  list(): Promise<readonly WorkerView[]>
}

export function workerRecords(database: Queries): WorkerRecords {
  return {
    async report({ worker, host, pid, roles, slots, running, state }) {
      const facts = [worker, host, pid, roles.join(','), slots, running, state]
      const [row] = await database.query<{ at: Date }>(reportSql, facts)
      return row?.at ?? new Date()
    },
    async time() {
      const [row] = await database.query<{ at: Date }>('select clock_timestamp() as at')
      return row?.at ?? new Date()
    },
    async leave(worker) {
      await database.query('delete from workers where worker = $1', [worker])
    },
    async list() {
      const rows = await database.query<WorkerRow>(listSql)
      return rows.map(({ roles, started_at: startedAt, seen_at: seenAt, ...row }) => ({
        ...row,
        roles: roles.split(','),
        startedAt: startedAt.toISOString(),
        seenAt: seenAt.toISOString(),
      }))
    },
  }
}

interface HeartbeatOptions extends Pick<WorkerReport, 'worker' | 'roles' | 'slots'> {
  readonly workers: Pick<WorkerRecords, 'report'>
  /** Learns from the time that the database answers with. */
  readonly clock: Pick<DatabaseClock, 'learn'>
  /** Undefined in a process that executes no calls. */
  readonly running: { readonly running: number } | undefined
  readonly lifecycle: Pick<WorkerReport, 'state'>
}

/** The heartbeat of this process, which also shows whether the database takes writes. */
export function createHeartbeat(options: HeartbeatOptions): () => Promise<void> {
  const { workers, clock, worker, roles, slots, running, lifecycle } = options
  const host = hostname()
  return () =>
    clock.learn(() =>
      workers.report({
        worker,
        host,
        pid: process.pid,
        roles,
        slots,
        running: running?.running ?? 0,
        state: lifecycle.state,
      }),
    )
}

type WorkerRow = Omit<WorkerView, 'roles' | 'startedAt' | 'seenAt'> & {
  roles: string
  started_at: Date
  seen_at: Date
}

const reportSql = `
  with old as (delete from workers where seen_at < now() - interval '1 day' and worker <> $1)
  insert into workers (worker, host, pid, roles, slots, running, state)
  values ($1, $2, $3, $4, $5, $6, $7)
  on conflict (worker) do update set
    running = excluded.running, state = excluded.state, slots = excluded.slots, seen_at = now()
  returning clock_timestamp() as at`

const listSql = `
  select worker, host, pid, roles, slots, running, started_at, seen_at,
    case when seen_at < now() - interval '30 seconds' then 'gone' else state end as state
  from workers
  order by started_at, worker`

/**
 * The time of the database, on every worker: what is recorded of a call must not depend on whose clock is wrong.
 *
 * It runs by the monotonic clock of this process. Each answer of the database bounds the difference between the two,
 * because the time in it was read between the question and the answer. An estimate within these bounds stays, unless they
 * are the narrowest so far.
 */
export interface DatabaseClock {
  /** Milliseconds since 1970; of this machine's clock until something was learnt. */
  now(): number
  /** Asks for the time and learns from the answer; rejects as `read` does. */
  learn(read: () => Promise<Date>): Promise<void>
}

export function createDatabaseClock(
  monotonic: () => number = () => performance.now(),
  wall: () => number = Date.now,
): DatabaseClock {
  let known: { readonly offset: number; readonly width: number } | undefined
  return {
    now: () => Math.floor(known === undefined ? wall() : monotonic() + known.offset),
    async learn(read) {
      const asked = monotonic()
      const at = (await read()).getTime()
      const answered = monotonic()
      const width = answered - asked
      const isPossible = known !== undefined && known.offset >= at - answered && known.offset <= at - asked
      if (known !== undefined && isPossible && width >= known.width) return
      known = { offset: at - (asked + answered) / 2, width }
    },
  }
}
