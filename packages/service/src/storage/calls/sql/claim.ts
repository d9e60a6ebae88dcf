import type { EffectClass } from '@gantry/contract'
import type { Database } from '../../databases/database.ts'
import { needLabel } from '../call-facts.ts'
import type { AdmittedCall, Claim, ClaimOptions } from '../call-store.ts'
import { inTime } from './leases.ts'

/**
 * $1: how many; $2: for how long; $3: the worker; $4: its labels; $5: the number of calls it runs of each tenant; $6: the
 * shares of tenants, or null; $7: the tenant after which to begin; $8: whether only tenants of which it has nothing get
 * one; $9: the time after which nothing is claimed, or null. While one tenant alone has calls that can be claimed, and
 * nothing limits it, its calls are simply taken. The calls are found by their keys, for the reason in leases.ts.
 */
const claimSql = `
  with ends as materialized (
    select (select tenant from queue where lane = 'ready' and lease_until is null order by tenant limit 1) as first,
      (select tenant from queue where lane = 'ready' and lease_until is null order by tenant desc limit 1) as last
    where ${inTime(9)}
  ), alone as materialized (
    select call_id from queue
    where lane = 'ready' and lease_until is null and (placement is null or placement <@ $4::jsonb)
      and tenant = (select first from ends where first = last and $6::jsonb is null and not ($8 and $5::jsonb ? first))
    order by priority desc, id limit case when $8 then 1 else $1::integer end
    for update skip locked
  ), taken as (
    update queue set fence = fence + 1, lease_until = now() + $2::float8 * interval '1 millisecond', worker = $3,
      claimed_at = now(), deliveries = deliveries + 1
    where call_id = any (array(
      select call_id from alone
      union all
      select take_turns($1::integer, $4::jsonb, $5::jsonb, $6::jsonb, $7, $8) from ends
      where first <> last or $6::jsonb is not null
    ))
    returning id, call_id, priority, fence, deliveries, faults, rests, lost, deaths, cancel_at, deadline, slot_key, slot_limit, placement, needs, run_at
  ), claimed as materialized (
    select t.id, t.priority, t.fence, t.deliveries, t.faults, t.rests, t.lost, t.deaths,
      t.cancel_at is not null as cancelled,
      (extract(epoch from t.deadline - now()) * 1000)::float8 as deadline_ms, t.slot_key, t.slot_limit, t.placement, t.needs,
      t.needs is not null and t.run_at <= now() as waited_out, c.*
    from taken t, lateral (
      select call_id, kind, tenant, principal, identity, idem_key, fingerprint, tool, digest, effect, payload,
        payload_ref, payload_bytes, timeout_ms, callback, reply, trace, redrive_of, effect_key, origin,
        on_circuit_open
      from calls where call_id = t.call_id offset 0
    ) c
  ), started as (
    insert into audit (tenant, principal, call_id, fence, phase, tool, worker)
    select tenant, principal, call_id, fence, 'start', tool, $3 from claimed
  )
  select call_id, fence, deliveries, faults, rests, lost, deaths, cancelled, deadline_ms, kind, identity, idem_key,
    fingerprint, tool, digest, effect, payload, payload_ref, payload_bytes, timeout_ms, priority, slot_key, slot_limit,
    placement, needs, waited_out, callback, reply, trace, redrive_of, effect_key, origin, on_circuit_open
  from claimed order by priority desc, id`

type ClaimRow = {
  priority: number
  fence: number
  deliveries: number
  faults: number
  rests: number
  lost: number
  deaths: number
  cancelled: boolean
  deadline_ms: number | null
  slot_key: string | null
  slot_limit: number | null
  call_id: string
  kind: AdmittedCall['kind']
  identity: string
  idem_key: string | null
  fingerprint: string
  tool: string
  digest: string | null
  effect: EffectClass
  payload: string | null
  payload_ref: string | null
  payload_bytes: number
  timeout_ms: number | null
  callback: string | null
  reply: string | null
  placement: { readonly [label: string]: string } | null
  needs: string | null
  waited_out: boolean
  trace: string | null
  redrive_of: string | null
  effect_key: string | null
  origin: string | null
  on_circuit_open: AdmittedCall['onCircuitOpen'] | null
}

/** The last tenant of this process's claims, where the next claim continues when there are many tenants. */
export interface Rotation {
  after: string
}

export async function claim(
  database: Database,
  max: number,
  { worker, leaseMs, labels = {}, busy = {}, newcomers = false, shares, notAfter }: ClaimOptions,
  rotation: Rotation,
): Promise<readonly Claim[]> {
  const rows = await database.query<ClaimRow>(claimSql, [
    max,
    leaseMs,
    worker,
    JSON.stringify(labels),
    JSON.stringify(busy),
    shares === undefined ? null : JSON.stringify(shares),
    rotation.after,
    newcomers,
    notAfter ?? null,
  ])
  const claims = rows.map(claimOf)
  rotation.after = claims.at(-1)?.call.identity.tenant ?? ''
  return claims
}

function claimOf(row: ClaimRow): Claim {
  const { call_id: callId, fence, deliveries, faults, rests, lost, deaths, cancelled, deadline_ms: deadlineMs } = row
  const past = { deliveries, faults, rests, lost, deaths, begun: deaths > 0 }
  const waited = row.waited_out ? ({ waitedOut: true } as const) : {}
  const plain = { callId, fence, call: callOf(row), ...past, ...waited, cancelled }
  return deadlineMs === null ? plain : { ...plain, deadlineMs }
}

/** The placement of the call itself, without the label of the tool that it waits for. */
function placementOf({ placement, needs }: ClaimRow): Pick<AdmittedCall, 'placement'> {
  if (placement === null || needs === null) return placement === null ? {} : { placement }
  const { [needLabel(needs)]: _, ...own } = placement
  return Object.keys(own).length === 0 ? {} : { placement: own }
}

function callOf(row: ClaimRow): AdmittedCall {
  return {
    callId: row.call_id,
    kind: row.kind,
    identity: JSON.parse(row.identity),
    fingerprint: row.fingerprint,
    tool: row.tool,
    effect: row.effect,
    payloadBytes: row.payload_bytes,
    ...(row.idem_key !== null && { key: row.idem_key }),
    ...(row.digest !== null && { digest: row.digest }),
    ...(row.payload !== null && { payload: row.payload }),
    ...(row.payload_ref !== null && { payloadRef: row.payload_ref }),
    ...(row.timeout_ms !== null && { timeoutMs: row.timeout_ms }),
    ...(row.priority !== 0 && { priority: row.priority }),
    ...(row.slot_key !== null && row.slot_limit !== null && { slot: { key: row.slot_key, limit: row.slot_limit } }),
    ...(row.callback !== null && { callback: row.callback }),
    ...(row.reply !== null && { reply: JSON.parse(row.reply) }),
    ...placementOf(row),
    ...(row.trace !== null && { trace: row.trace }),
    ...(row.redrive_of !== null && { redriveOf: row.redrive_of }),
    ...(row.effect_key !== null && { effectKey: row.effect_key }),
    ...(row.origin !== null && { origin: JSON.parse(row.origin) }),
    ...(row.on_circuit_open && { onCircuitOpen: row.on_circuit_open }),
  }
}
