import { hostname } from 'node:os'
import type { WorkerView } from '@gantry/contract'
import type { DatabaseClock } from './calls/lease-time.ts'
import type { Queries } from './databases/database.ts'
import { differingParts, type SharedTexts } from './server-comparison.ts'

/** The heartbeat of a process. */
interface WorkerReport {
  readonly worker: string
  readonly host: string
  readonly pid: number
  readonly roles: readonly string[]
  readonly slots: number
  readonly running: number
  readonly state: Exclude<WorkerView['state'], 'lost'>
  /** Fingerprints of what must be equal in all processes; none when absent. */
  readonly fingerprints?: SharedTexts
  /** How long its calls are its own after its last heartbeat; 30 s when absent. */
  readonly leaseMs?: number
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
  /**
   * Workers without a heartbeat for longer than their lease are `lost`; heartbeats are five seconds apart, so that one with
   * a shorter lease is lost after 15 s. With the fingerprints of a process, each has the parts that differ from it.
   */
  list(own?: SharedTexts): Promise<readonly WorkerView[]>
}

export function workerRecords(database: Queries): WorkerRecords {
  return {
    async report({ worker, host, pid, roles, slots, running, state, fingerprints = {}, leaseMs = usualLeaseMs }) {
      const about = [worker, host, pid, roles.join(','), slots, running, state]
      const facts = [...about, JSON.stringify(fingerprints), leaseMs]
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
    async list(own = {}) {
      const rows = await database.query<WorkerRow>(listSql)
      return rows.map(({ roles, started_at: startedAt, seen_at: seenAt, fingerprints, ...row }) => {
        const differs = row.state === 'lost' ? [] : differingParts(own, fingerprints)
        return {
          ...row,
          roles: roles.split(','),
          startedAt: startedAt.toISOString(),
          seenAt: seenAt.toISOString(),
          ...(differs.length === 0 ? {} : { differs }),
        }
      })
    },
  }
}

const usualLeaseMs = 30_000
const shortestLeaseMs = 15_000

interface HeartbeatOptions extends Pick<WorkerReport, 'worker' | 'roles' | 'slots' | 'leaseMs'> {
  readonly workers: Pick<WorkerRecords, 'report'>
  /** Corrected with the time of the database. */
  readonly clock: Pick<DatabaseClock, 'learn'>
  /** Undefined in a process without the role worker. */
  readonly running: { readonly running: number } | undefined
  readonly lifecycle: Pick<WorkerReport, 'state'>
  readonly comparison: { readonly fingerprints: SharedTexts }
}

/** The heartbeat of this process, which also probes whether the database accepts writes. */
export function createHeartbeat(options: HeartbeatOptions): () => Promise<void> {
  const { workers, clock, worker, roles, slots, leaseMs = usualLeaseMs, running, lifecycle, comparison } = options
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
        fingerprints: comparison.fingerprints,
        leaseMs,
      }),
    )
}

type WorkerRow = Omit<WorkerView, 'roles' | 'startedAt' | 'seenAt' | 'differs'> & {
  roles: string
  fingerprints: SharedTexts
  started_at: Date
  seen_at: Date
}

const reportSql = `
  with old as (delete from workers where seen_at < now() - interval '1 day' and worker <> $1)
  insert into workers (worker, host, pid, roles, slots, running, state, fingerprints, lease_ms)
  values ($1, $2, $3, $4, $5, $6, $7, $8::jsonb, $9)
  on conflict (worker) do update set
    running = excluded.running, state = excluded.state, slots = excluded.slots, seen_at = now(),
    fingerprints = excluded.fingerprints, lease_ms = excluded.lease_ms
  returning clock_timestamp() as at`

const listSql = `
  select worker, host, pid, roles, slots, running, started_at, seen_at, fingerprints,
    case
      when seen_at < now() - greatest(lease_ms, ${shortestLeaseMs}) * interval '1 millisecond' then 'lost'
      else state
    end as state
  from workers
  order by started_at, worker`
