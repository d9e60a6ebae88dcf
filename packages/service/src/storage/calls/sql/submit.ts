import { ToolError } from '@gantry/contract'
import type { Database, Queries } from '../../databases/database.ts'
import type { AdmittedCall, Ahead, Claim, ClaimOptions, Ending, Submitted } from '../call-store.ts'
import { inTime } from './leases.ts'

const columns = `
  call_id, kind, tenant, principal, identity, idem_key, fingerprint, tool, digest, effect, payload, payload_ref,
  payload_bytes, timeout_ms, callback, reply, trace, redrive_of, effect_key, origin, on_circuit_open`

const callFields = `
  call_id text, kind text, tenant text, principal text, identity text, idem_key text, fingerprint text, tool text,
  digest text, effect text, payload text, payload_ref text, payload_bytes integer, timeout_ms integer, callback text,
  reply text, trace text, redrive_of text, effect_key text, origin text,
  on_circuit_open text`

/**
 * $1: the calls; $2: the worker that claims them, or null; $3: for how long; $4: its labels; $5: whether not to flush;
 * $6: the time after which nothing is done, or null.
 */
const submitSql = `
  with d as materialized (
    select * from json_to_recordset($1::json) as d(
      n integer, ${callFields}, priority integer, delay_ms float8, deadline_ms float8, slot_key text,
      slot_limit integer, placement jsonb)
    where ${inTime(6)}
  ), kept as (
    insert into calls (${columns}) select ${columns} from d on conflict do nothing returning call_id
  ), placed as (
    select d.*, case when delay_ms > 0 then 'later' when slot_key is not null then 'held' else 'ready' end as lane,
      $2::text is not null and not delay_ms > 0 and slot_key is null
        and (placement is null or placement <@ $4::jsonb) as leased
    from d join kept using (call_id)
  ), entered as (
    insert into queue (
      call_id, tenant, principal, lane, priority, run_at, deadline, slot_key, slot_limit, placement, fence, lease_until,
      worker, claimed_at, deliveries, begun)
    select call_id, tenant, principal, lane, priority, now() + delay_ms * interval '1 millisecond',
      now() + deadline_ms * interval '1 millisecond', slot_key, slot_limit, placement, leased::integer,
      case when leased then now() + $3::float8 * interval '1 millisecond' end, case when leased then $2 end,
      case when leased then now() end, leased::integer, leased
    from placed order by n
    returning call_id, lane, slot_key, fence, deadline
  ), started as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker)
    select tenant, principal, call_id, 1, 'start', tool, $2 from placed where leased order by n
  )
  select call_id, fence = 1 as leased, (extract(epoch from deadline - now()) * 1000)::float8 as deadline_ms,
    (select fill_slots(array_agg(slot_key)) from entered where lane = 'held') as filled,
    (select pg_notify('gantry_ready', '') where exists (select from entered where lane = 'ready' and fence = 0)) as notified,
    (select set_config('synchronous_commit', 'off', true) where $5) as unflushed
  from entered`

/**
 * The same for calls that ask for nothing but to be run now, and are claimed, as most are, in three quarters of the
 * time of the statement for all. $1: the calls; $2: the worker; $3: for how long; $4: whether not to flush; $5: as $6
 * of the other.
 */
const plainSql = `
  with kept as (
    insert into calls (${columns}) select ${columns} from json_to_recordset($1::json) as d(${callFields})
    where ${inTime(5)}
    on conflict do nothing returning call_id, tenant, principal, tool
  ), entered as (
    insert into queue (call_id, tenant, principal, lane, fence, lease_until, worker, claimed_at, deliveries, begun)
    select call_id, tenant, principal, 'ready', 1, now() + $3::float8 * interval '1 millisecond', $2::text, now(), 1, true
    from kept
  ), started as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker)
    select tenant, principal, call_id, 1, 'start', tool, $2 from kept
  )
  select call_id, true as leased, null::float8 as deadline_ms,
    (select set_config('synchronous_commit', 'off', true) where $4) as unflushed
  from kept`

const names = columns.split(',').map((name) => name.trim())
const place = (name: string): string => `$${names.indexOf(name) + 1}`
const [worker, leaseMs] = [`$${names.length + 1}::text`, `$${names.length + 2}::float8`]

/** For one call that is certainly new: one parameter per column, then the worker and the duration of the lease. */
const certainSql = `
  with kept as (
    insert into calls (${columns}) values (${names.map(place).join(', ')})
  ), entered as (
    insert into queue (call_id, tenant, principal, lane, fence, lease_until, worker, claimed_at, deliveries, begun)
    values (${place('call_id')}, ${place('tenant')}, ${place('principal')}, 'ready', 1,
      now() + ${leaseMs} * interval '1 millisecond', ${worker}, now(), 1, true)
  ), started as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker)
    values (${place('tenant')}, ${place('principal')}, ${place('call_id')}, 1, 'start', ${place('tool')}, ${worker})
  )
  select set_config('synchronous_commit', 'off', true)`

/** A flush waits for all that was written before it; a logical message is the smallest write that needs one. */
const flushSql = `
  select exists (select from calls where call_id = $1) as there,
    pg_logical_emit_message(true, 'gantry', '') is not null as flushed`

/**
 * A separate statement, because a conflicting call may have been committed after the first statement started, which
 * does not see it then.
 */
const lookupSql = `
  select d.n, c.call_id, c.same
  from json_to_recordset($1::json) as d(
    n integer, call_id text, tenant text, principal text, idem_key text, fingerprint text), lateral (
    select c.call_id, c.tenant = d.tenant and c.principal = d.principal and c.idem_key is not distinct from d.idem_key
      and c.fingerprint = d.fingerprint as same
    from (
      select * from calls where call_id = d.call_id
      union all select * from calls where tenant = d.tenant and principal = d.principal and idem_key = d.idem_key
    ) c
    order by c.call_id = d.call_id desc limit 1
  ) c`

type Entered = { call_id: string; leased: boolean; deadline_ms: number | null }
type Found = { n: number; call_id: string; same: boolean }

/** Fails instead of answering with the result of another call. */
function unanswered(callId: string): never {
  throw new ToolError('INTERNAL', `The database gave no answer to the submission of call ${callId}.`)
}

/** Also used in the transaction that redrives a call. */
export async function submit(
  database: Queries,
  calls: readonly AdmittedCall[],
  claim: ClaimOptions | undefined,
  unflushed = false,
): Promise<readonly Submitted[]> {
  if (calls.length === 0) return []
  const rows = rowsOf(calls)
  const different = distinct(rows)
  const plain = calls.every(isPlain)
  const entered = await enter(database, different, plain, claim, unflushed)
  const fresh = new Map(entered.map((row) => [row.call_id, row]))
  const answers = new Map<number, Submitted>()
  for (const { n, call_id: callId } of different) {
    const row = fresh.get(callId)
    const call = calls[n]
    if (row !== undefined && call !== undefined) answers.set(n, newCall(call, row, unflushed))
  }
  await lookUp(
    database,
    rows.filter(({ n }) => !answers.has(n)),
    answers,
  ).catch((error: unknown) => {
    throw answers.size === 0 ? error : inPart(error)
  })
  // The conflicting calls of the rest were removed in between, or the rest was too late to be claimed.
  const rest = calls.flatMap((call, n) => (answers.has(n) ? [] : [{ call, n }]))
  const again = await submit(
    database,
    rest.map(({ call }) => call),
    claim?.notAfter === undefined ? claim : undefined,
    unflushed,
  )
  for (const [index, { n }] of rest.entries()) {
    const answer = again[index]
    if (answer !== undefined) answers.set(n, answer)
  }
  return calls.map(({ callId }, n) => answers.get(n) ?? unanswered(callId))
}

/** The error of a submission that failed after some calls were inserted: its outcome is unknown. */
function inPart(error: unknown): ToolError {
  const message = 'The database failed after some of the calls were inserted.'
  return new ToolError('STORE_UNAVAILABLE', message, {
    cause: error,
    effect: 'possible',
    details: { outcome: 'unknown' },
  })
}

function enter(
  database: Queries,
  rows: readonly CallRow[],
  plain: boolean,
  claim: ClaimOptions | undefined,
  unflushed: boolean,
): Promise<readonly Entered[]> {
  const text = JSON.stringify(rows)
  if (claim !== undefined && plain) {
    return database.query<Entered>(plainSql, [text, claim.worker, claim.leaseMs, unflushed, claim.notAfter ?? null])
  }
  const { worker = null, leaseMs = null, labels = {}, notAfter = null } = claim ?? {}
  return database.query<Entered>(submitSql, [text, worker, leaseMs, JSON.stringify(labels), unflushed, notAfter])
}

/**
 * Whether a call that is claimed with its submission is certainly new: it has no key that could conflict, and nothing
 * for the store to decide.
 */
function isCertain(call: AdmittedCall): boolean {
  return call.key === undefined && isPlain(call)
}

/** The claim of such a call. */
export function certainClaim(call: AdmittedCall): Claim {
  return claimOf(call, null, true)
}

/** Inserts one such call, unflushed; rejects when its id exists already. */
async function submitCertain(
  database: Queries,
  call: AdmittedCall,
  { worker, leaseMs }: ClaimOptions,
): Promise<Submitted> {
  const row: Partial<Record<string, unknown>> = rowOf(call, 0)
  await database.query(certainSql, [...names.map((name) => row[name] ?? null), worker, leaseMs])
  return { kind: 'new', callId: call.callId, claim: certainClaim(call) }
}

/** Whether any worker can claim it now, without priority, deadline, slot or placement. */
function isPlain({ priority, delayMs = 0, deadlineMs, slot, placement }: AdmittedCall): boolean {
  const inTurn = (priority ?? 0) === 0 && !(delayMs > 0)
  return inTurn && deadlineMs === undefined && slot === undefined && placement === undefined
}

/** An existing call with the same id or key. */
export async function known(database: Queries, call: AdmittedCall): Promise<Submitted | undefined> {
  const answers = new Map<number, Submitted>()
  await lookUp(database, rowsOf([call]), answers)
  return answers.get(0)
}

async function lookUp(database: Queries, rows: readonly CallRow[], answers: Map<number, Submitted>): Promise<void> {
  if (rows.length === 0) return
  const asked = rows.map(({ n, call_id, tenant, principal, idem_key, fingerprint }) => {
    return { n, call_id, tenant, principal, idem_key, fingerprint }
  })
  for (const { n, call_id: callId, same } of await database.query<Found>(lookupSql, [JSON.stringify(asked)])) {
    answers.set(n, { kind: same ? 'duplicate' : 'conflict', callId })
  }
}

/** Waits for the disk; returns whether the call exists. */
export async function flush(database: Queries, callId: string): Promise<boolean> {
  const [row] = await database.query<{ there: boolean }>(flushSql, [callId])
  return row?.there === true
}

function newCall(given: AdmittedCall, row: Entered, unflushed: boolean): Submitted {
  const { callId } = given
  return row.leased
    ? { kind: 'new', callId, claim: claimOf(given, row.deadline_ms, unflushed) }
    : { kind: 'new', callId }
}

function claimOf(given: AdmittedCall, deadlineMs: number | null, unflushed: boolean): Claim {
  const { callId } = given
  const call = withoutTimes(given)
  const past = { deliveries: 1, faults: 0, rests: 0, lost: 0, deaths: 0, begun: false }
  const fresh = { callId, fence: 1, call, ...past, cancelled: false }
  const plain: Claim = unflushed ? { ...fresh, unflushed } : fresh
  return deadlineMs === null ? plain : { ...plain, deadlineMs }
}

/** Removes durations that are relative to the submission. */
function withoutTimes(call: AdmittedCall): AdmittedCall {
  if (call.delayMs === undefined && call.deadlineMs === undefined) return call
  const { delayMs: _, deadlineMs: __, ...rest } = call
  return rest
}

type CallRow = ReturnType<typeof rowOf>

/** Sorted by key, so that batches with the same keys cannot deadlock. */
function rowsOf(calls: readonly AdmittedCall[]): CallRow[] {
  return calls
    .map((call, n) => ({ order: orderOf(call), n, row: rowOf(call, n) }))
    .sort((a, b) => (a.order < b.order ? -1 : a.order > b.order ? 1 : a.n - b.n))
    .map(({ row }) => row)
}

/** The separator cannot occur in text of the database. */
function orderOf({ callId, key, identity }: AdmittedCall): string {
  return key === undefined ? callId : `${identity.tenant}\0${identity.principal}\0${key}`
}

/** The first row of each id. */
function distinct(rows: readonly CallRow[]): CallRow[] {
  const seen = new Set<string>()
  return rows.filter(({ call_id }) => !seen.has(call_id) && seen.add(call_id))
}

function rowOf(call: AdmittedCall, n: number) {
  const { tenant, principal } = call.identity
  return {
    n,
    call_id: call.callId,
    kind: call.kind,
    tenant,
    principal,
    identity: JSON.stringify(call.identity),
    idem_key: call.key,
    fingerprint: call.fingerprint,
    tool: call.tool,
    digest: call.digest,
    effect: call.effect,
    payload: call.payload,
    payload_ref: call.payloadRef,
    payload_bytes: call.payloadBytes,
    timeout_ms: call.timeoutMs,
    callback: call.callback,
    reply: call.reply === undefined ? undefined : JSON.stringify(call.reply),
    trace: call.trace,
    redrive_of: call.redriveOf,
    effect_key: call.effectKey,
    origin: call.origin === undefined ? undefined : JSON.stringify(call.origin),
    on_circuit_open: call.onCircuitOpen,
    priority: call.priority ?? 0,
    delay_ms: call.delayMs ?? 0,
    deadline_ms: call.deadlineMs,
    slot_key: call.slot?.key,
    slot_limit: call.slot?.limit,
    placement: call.placement,
  }
}

/** Inserts of calls that are in flight on the pipelined connection, and their endings behind them. */
interface AheadLine {
  submit(calls: readonly AdmittedCall[], claim: ClaimOptions): Ahead | undefined
  /** The pending insert of a call; undefined when there is none. */
  entering(callId: string): Promise<unknown> | undefined
  /** Runs an ending; behind the inserts of its calls, when one is in flight. */
  finish<T>(endings: readonly Ending[], end: (queries: Queries) => Promise<T>): Promise<T>
}

export function createAheadLine(database: Database): AheadLine {
  const { line } = database
  const entering = new Map<string, Promise<unknown>>()
  return {
    submit(calls, claim) {
      if (line?.ready !== true || !calls.every(isCertain)) return undefined
      const submitted = send(line, calls, claim).finally(() => {
        for (const { callId } of calls) entering.delete(callId)
      })
      const entered = submitted.then(mustBeNew)
      for (const { callId } of calls) entering.set(callId, entered)
      // The worker of each claim awaits it; the rejection of a dropped claim is ignored.
      entered.catch(() => undefined)
      return { claims: calls.map((call) => ({ ...certainClaim(call), entering: entered })), submitted }
    },
    entering: (callId) => entering.get(callId),
    async finish(endings, end) {
      const before = endings.flatMap(({ callId }) => entering.get(callId) ?? [])
      if (line === undefined || before.length === 0) return end(database)
      try {
        return await end(line)
      } catch (error) {
        if (!wasNotDone(error)) throw error
        // The pipelined connection failed; once the inserts have settled, the ending uses another connection.
        await Promise.allSettled(before)
        return end(database)
      }
    },
  }
}

function wasNotDone(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE' && error.details?.outcome === 'none'
}

/** Without `notAfter`: the endings of these calls follow on the same connection, and run as late. */
async function send(
  line: Queries,
  calls: readonly AdmittedCall[],
  { notAfter: _, ...claim }: ClaimOptions,
): Promise<readonly Submitted[]> {
  const [call, ...more] = calls
  if (call === undefined || more.length > 0) return submit(line, calls, claim, true)
  return [await submitCertain(line, call, claim)]
}

/** Rejects an existing id, so that the work on this call is discarded. */
function mustBeNew(submitted: readonly Submitted[]): void {
  const other = submitted.find(({ kind }) => kind !== 'new')
  if (other !== undefined) throw new Error(`The call ${other.callId} exists already.`)
}
