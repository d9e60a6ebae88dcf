import type { Database } from '../databases/database.ts'
import type { CallStore } from './call-store.ts'
import { claim } from './sql/claim.ts'
import { finish } from './sql/finish.ts'
import { begin, extend, outcomes, release, resume } from './sql/leases.ts'
import { cancel, reclaim } from './sql/reclaim.ts'
import { createAheadLine, flush, known, submit } from './sql/submit.ts'

/**
 * The call store in a migrated database, PGlite or PostgreSQL. Each operation is one statement, so one round trip and
 * one commit; the few that need a second one say why.
 * `answers` are the brokers over which this process replies to calls that it completes.
 * - Ownership: the database stays the caller's.
 */
export function sqlCallStore(database: Database, answers: readonly string[] = []): CallStore {
  const announce = createAnnouncer(database)
  const rotation = { after: '' }
  const ahead = createAheadLine(database)
  return {
    submit: (calls, options, how) => submit(database, calls, options, how?.unflushed),
    ...(database.line === undefined ? {} : { submitAhead: ahead.submit, entering: ahead.entering }),
    flush: (callId) => flush(database, callId),
    known: (call) => known(database, call),
    claim: (max, options) => claim(database, max, options, rotation),
    begin: (holders) => begin(database, holders),
    extend: (holders, leaseMs) => extend(database, holders, leaseMs),
    release: (holders) => release(database, holders),
    resume: (callId) => resume(database, callId),
    offer: (needs, max) => offer(database, needs, max),
    async finish(endings) {
      const accepted = await ahead.finish(endings, (queries) => finish(queries, endings, answers))
      const awaited = new Set(endings.flatMap((ending) => (ending.awaited?.() === true ? [ending.callId] : [])))
      announce(
        accepted.filter((callId) => !awaited.has(callId)),
        accepted.filter((callId) => awaited.has(callId)),
      )
      return accepted
    },
    outcomes: (holders) => outcomes(database, holders),
    async reclaim(options) {
      const reclaimed = await reclaim(database, options)
      announce(reclaimed.expired)
      return reclaimed
    },
    async cancel(callId, tenant) {
      const fate = await cancel(database, callId, tenant)
      if (fate === 'ended') announce([callId])
      return fate
    },
    depth: (most) => depth(database, most),
    waiting: (tenant, most) => waiting(database, tenant, most),
  }
}

const depthSql = `
  select least($1::bigint,
    (select count(*) from (select from queue where lane = 'ready' and lease_until is null limit $1) ready)
    + (select count(*) from (select from queue where lane = 'held' limit $1) held)) as depth`

async function depth(database: Database, most: number): Promise<number> {
  const [row] = await database.query<{ depth: number }>(depthSql, [most])
  return row?.depth ?? 0
}

const waitingSql = `
  select coalesce(principal, '') as principal, count(*)::integer as calls
  from (
    (select principal from queue where tenant = $1 and lane = 'ready' and lease_until is null limit $2)
    union all
    (select principal from queue where tenant = $1 and coalesce(lane <> 'ready', false) limit $2)
  ) waiting
  group by 1`

async function waiting(database: Database, tenant: string, most: number): Promise<ReadonlyMap<string, number>> {
  const rows = await database.query<{ principal: string; calls: number }>(waitingSql, [tenant, most])
  return new Map(rows.map(({ principal, calls }) => [principal, calls]))
}

/** $1: the needs as a JSON list; $2: the limit of calls. Calls with a slot key wait for a slot first. */
const offerSql = `
  with offered as (
    update queue set lane = case when slot_key is null then 'ready' else 'held' end
    where call_id = any (array(
      select call_id from queue
      where lane = 'later' and needs = any (array(select json_array_elements_text($1::json)))
      order by id limit $2
      for update skip locked
    ))
    returning slot_key
  )
  select count(*)::integer as offered,
    (select fill_slots(array_agg(slot_key)) from offered where slot_key is not null) as filled,
    (select pg_notify('gantry_ready', '') where exists (select from offered)) as notified
  from offered`

async function offer(database: Database, needs: readonly string[], max: number): Promise<number> {
  if (needs.length === 0) return 0
  const [row] = await database.query<{ offered: number }>(offerSql, [JSON.stringify(needs), max])
  return row?.offered ?? 0
}

/** Limit of a payload before the last id is added; with the longest id it stays below the 8000 bytes of NOTIFY. */
const partBytes = 7_000

/** Long enough to batch calls that end together, short enough for waiters in other processes. */
const gatherMs = 5
/** For calls that only observers of all calls wait for; an immediate notification costs a tenth of a short call. */
const unhurriedMs = 250

/** A notification need not survive a crash, so its commit does not wait for the disk. */
const announceSql = `
  select pg_notify('gantry_done', part), set_config('synchronous_commit', 'off', true)
  from json_array_elements_text($1::json) as part`

/**
 * Notifies listeners of ended calls, several together and a moment later. In the transaction of the outcome it would
 * make outcomes wait for each other's disk, because the server lets only one transaction at a time notify. Waiters poll
 * for what a process that dies does not announce.
 */
export function createAnnouncer(database: Database): Announcer {
  let gathered: string[] = []
  let timer: NodeJS.Timeout | undefined
  let hurried = false
  const flush = (): void => {
    const parts = JSON.stringify(inParts(gathered))
    gathered = []
    timer = undefined
    hurried = false
    database.query(announceSql, [parts]).catch(() => undefined)
  }
  const flushIn = (ms: number): void => {
    clearTimeout(timer)
    timer = setTimeout(flush, ms)
  }
  return (callIds, unhurried = []) => {
    gathered.push(...callIds, ...unhurried)
    if (callIds.length > 0 && !hurried) {
      hurried = true
      flushIn(gatherMs)
    } else if (gathered.length > 0 && timer === undefined) flushIn(unhurriedMs)
    // No waiter depends on these, so they do not keep the process alive.
    if (!hurried) timer?.unref()
  }
}

/** Announces ended calls; `unhurried` ones may be late. */
type Announcer = (callIds: readonly string[], unhurried?: readonly string[]) => void

function inParts(callIds: readonly string[]): string[] {
  const parts: string[] = []
  let bytes = Number.POSITIVE_INFINITY
  for (const callId of callIds) {
    bytes += Buffer.byteLength(callId) + 1
    if (bytes <= partBytes) parts.push(`${parts.pop()},${callId}`)
    else {
      parts.push(callId)
      bytes = Buffer.byteLength(callId)
    }
  }
  return parts
}
