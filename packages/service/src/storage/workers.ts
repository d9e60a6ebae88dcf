import { hostname } from 'node:os'
import type { WorkerView } from '@gantry/contract'
import type { DatabaseClock } from './calls/lease-time.ts'
import type { Queries } from './databases/database.ts'

/** The heartbeat of a process. */
interface WorkerReport {
  readonly worker: string
  readonly host: string
  readonly pid: number
  readonly roles: readonly string[]
  readonly slots: number
  readonly running: number
  readonly state: Exclude<WorkerView['state'], 'gone'>
}

/** Heartbeats of processes, in the table `workers`. Informational only: leases decide which worker runs a call. */
export interface WorkerRecords {
  /**
   * Writes the heartbeat of a process, every ten seconds, and removes rows that are a day old. Resolves with the time
   * of the database.
   */
  report(worker: WorkerReport): Promise<Date>
  /** The time of the database. */
  time(): Promise<Date>
  leave(worker: string): Promise<void>
  /** Workers without a heartbeat for half a minute are `gone`. */
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
  /** Corrected with the time of the database. */
  readonly clock: Pick<DatabaseClock, 'learn'>
  /** Undefined in a process without the role worker. */
  readonly running: { readonly running: number } | undefined
  readonly lifecycle: Pick<WorkerReport, 'state'>
}

/** The heartbeat of this process, which also probes whether the database accepts writes. */
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
