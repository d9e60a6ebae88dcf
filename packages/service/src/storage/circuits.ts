import { circuitKey } from '@gantry/core/internal/resilience/circuit-state'
import type { Queries } from './databases/database.ts'

/** A circuit that is open, or on trial by a worker. */
export interface SharedCircuit {
  readonly key: string
  /** Time until a trial is due; 0 or less when it is due. */
  readonly restMs: number
  readonly streak: number
  /** Time since it opened, or since its trial began. */
  readonly sinceMs: number
  /** The worker that has the trial. */
  readonly trialBy: string | undefined
}

/** The answer to a claim of a trial: granted, to be claimed later, or the circuit is closed. */
export type TrialAnswer =
  | { readonly kind: 'granted'; readonly streak: number }
  | { readonly kind: 'wait'; readonly waitMs: number }
  | { readonly kind: 'closed' }

/**
 * The circuits that are open in the whole fleet, in the table `circuits`; notifications go to `gantry_circuit`, with
 * the name of the worker that changed something.
 *
 * States: `closed` (no row), `open`, `trial`
 *
 * - `closed` → `open`: a worker finds the backend at fault. Of several, the later retry time and the longer streak
 *   count.
 * - `open` → `trial`: after the retry time one worker claims the trial, under a lease that it renews.
 * - `trial` → `open` or `closed`: the worker with the trial reports a failure or a success; no other may close it.
 * - `trial` → `trial`: the lease expired, and the next worker that claims the trial gets it.
 * - `open` or `trial` → `closed`: an operator resets it.
 *
 * - Time: all of it is the database's, and goes in and out as durations.
 * - Concurrency: any number of processes; of those that ask for a trial at once, one gets it.
 */
export interface CircuitRecords {
  open(circuits: readonly Pick<SharedCircuit, 'key' | 'restMs' | 'streak'>[], worker: string): Promise<void>
  close(keys: readonly string[], worker: string): Promise<void>
  claimTrial(key: string, worker: string, leaseMs: number): Promise<TrialAnswer>
  renewTrials(keys: readonly string[], worker: string, leaseMs: number): Promise<void>
  /** Gives up trials that were granted and not made. */
  leaveTrials(keys: readonly string[], worker: string): Promise<void>
  list(): Promise<readonly SharedCircuit[]>
  /** Removes a circuit of one tenant or of all tenants, in any state, and notifies every process to close it. */
  reset(reset: CircuitReset, worker: string): Promise<boolean>
}

/** The circuit that an operator resets, for one tenant or for all. */
export interface CircuitReset {
  readonly circuit: string
  readonly tenant?: string
}

export const circuitChannel = 'gantry_circuit'
/** Channel of resets, as JSON, because circuits of a single process have no row whose removal others would see. */
export const resetChannel = 'gantry_circuit_reset'

export function circuitRecords(database: Queries): CircuitRecords {
  return {
    async open(circuits, worker) {
      const rows = circuits.map(({ key, restMs, streak }) => ({ key, rest_ms: restMs, streak }))
      await database.query(openSql, [JSON.stringify(rows), worker])
    },
    async close(keys, worker) {
      await database.query(closeSql, [JSON.stringify(keys), worker])
    },
    async claimTrial(key, worker, leaseMs) {
      const [answer] = await database.query<ClaimRow>(claimSql, [key, worker, leaseMs])
      if (answer === undefined) return { kind: 'closed' }
      const { wait_ms: waitMs, streak } = answer
      return waitMs === null ? { kind: 'granted', streak } : { kind: 'wait', waitMs }
    },
    async renewTrials(keys, worker, leaseMs) {
      const sql = `update circuits set trial_until = now() + $3 * interval '1 millisecond' ${held}`
      await database.query(sql, [JSON.stringify(keys), worker, leaseMs])
    },
    async leaveTrials(keys, worker) {
      await database.query(`update circuits set trial_by = null ${held}`, [JSON.stringify(keys), worker])
    },
    async reset({ circuit, tenant }, worker) {
      const payload = JSON.stringify({ circuit, tenant, worker })
      const [row] = await database.query<{ gone: number }>(resetSql, [
        circuitKey(circuit, tenant),
        tenant === undefined,
        payload,
      ])
      return (row?.gone ?? 0) > 0
    },
    async list() {
      const rows = await database.query<ListRow>(listSql)
      return rows.map(({ key, rest_ms: restMs, streak, since_ms: sinceMs, trial_by: trialBy }) => ({
        key,
        restMs,
        streak,
        sinceMs,
        trialBy: trialBy ?? undefined,
      }))
    },
  }
}

type ClaimRow = { wait_ms: number | null; streak: number }
type ListRow = { key: string; rest_ms: number; streak: number; since_ms: number; trial_by: string | null }

const named = 'array(select json_array_elements_text($1::json))'
const held = `where key = any (${named}) and trial_by = $2`

// The worker with the trial ends it by opening the circuit again; a trial of another worker goes on. A circuit without
// a trial for a day is that of a tool that is not called any more.
const openSql = `
  with asked as (
    select key, now() + rest_ms * interval '1 millisecond' as retry_at, streak
    from json_to_recordset($1::json) as o(key text, rest_ms float8, streak integer)
  ), forgotten as (
    delete from circuits where retry_at < now() - interval '1 day' and key not in (select key from asked)
  ), opened as (
    insert into circuits as c (key, retry_at, streak)
    select key, retry_at, streak from asked order by key
    on conflict (key) do update set
      retry_at = greatest(c.retry_at, excluded.retry_at),
      streak = greatest(c.streak, excluded.streak),
      changed_at = case when c.trial_by = $2::text then now() else c.changed_at end,
      trial_by = nullif(c.trial_by, $2::text)
    returning key
  )
  select pg_notify('${circuitChannel}', $2::text) where exists (select from opened)`

// A worker without the trial can close only a circuit that is not on trial and was not opened again.
const closeSql = `
  with gone as (
    delete from circuits where key in (
      select key from circuits
      where key = any (${named})
        and (trial_by = $2::text or (retry_at <= now() and (trial_by is null or trial_until <= now())))
      order by key
      for update
    )
    returning key
  )
  select pg_notify('${circuitChannel}', $2::text) where exists (select from gone)`

// $1: the key; $2: whether those of all tenants go with it; $3: the notification to other processes.
const resetSql = `
  with gone as (
    delete from circuits where key in (
      select key from circuits where key = $1 or ($2 and starts_with(key, $1 || ' for "')) order by key for update
    )
    returning key
  )
  select count(*)::integer as gone, pg_notify('${resetChannel}', $3::text) as notified from gone`

/** Those who must wait for a trial ask again in a second, or less often when it takes long. */
const leastWaitMs = 1_000

// Other values are read before the update, which may have waited for another one.
const claimSql = `
  with claimed as (
    update circuits set
      trial_by = $2, trial_until = now() + $3 * interval '1 millisecond', changed_at = now()
    where key = $1 and retry_at <= now() and (trial_by is null or trial_by = $2 or trial_until <= now())
    returning streak
  )
  select null::float8 as wait_ms, streak from claimed
  union all
  select case
    when retry_at > now() then extract(epoch from retry_at - now())::float8 * 1000
    when trial_until > now() then greatest(${leastWaitMs}, extract(epoch from now() - changed_at)::float8 * 1000)
    else ${leastWaitMs}
  end, streak
  from circuits where key = $1 and not exists (select from claimed)`

const listSql = `
  select key, streak,
    extract(epoch from retry_at - now())::float8 * 1000 as rest_ms,
    extract(epoch from now() - changed_at)::float8 * 1000 as since_ms,
    case when trial_until > now() then trial_by end as trial_by
  from circuits`
