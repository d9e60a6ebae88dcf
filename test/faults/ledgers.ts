import assert from 'node:assert/strict'
import type { AuditVerdict } from '@gantry/contract'
import { readAudit } from '../../packages/service/src/storage/audit/entries.ts'
import { verifyAudit } from '../../packages/service/src/storage/audit/verify.ts'
import type { Queries } from '../../packages/service/src/storage/databases/database.ts'

/** One line of the ledger, written by a tool. */
export interface Effect {
  readonly what: 'act' | 'enter' | 'leave'
  /** The id that the producer gave the request. */
  readonly id: string
  readonly callId: string
  readonly tool: string | undefined
  readonly key: string
  readonly attempt: number
  /** The fence of the lease under which the tool ran. */
  readonly fence: number | undefined
  readonly pid: number
  /** Microseconds of the monotonic clock that all processes share. */
  readonly at: number
}

/** A request that got a 2xx response, or that a broker has stored. */
export interface Request {
  readonly id: string
  readonly tool: string
  /** Absent if the sender received none; the call is then found by its idempotency key, the id. */
  readonly callId?: string
}

/** An outcome that a client received. */
export interface Reply {
  readonly id: string
  readonly callId?: string
  readonly status: string
  readonly code: string | undefined
  /** The whole reply, if it came over a broker; `answers` is its request. */
  readonly text?: string
  readonly answers?: string
}

/** Records kept outside the system under test. */
export interface Ledgers {
  readonly requests: readonly Request[]
  readonly replies: readonly Reply[]
  readonly effects: readonly Effect[]
  /** Ids of the operations of the idempotent downstream service. */
  readonly downstream: readonly string[]
  /** The time of each kill by the same clock, by pid. */
  readonly killed: ReadonlyMap<number, number>
}

/** The monotonic clock that all processes of the machine share. */
export function commonClock(): number {
  return Number(process.hrtime.bigint() / 1_000n)
}

/** The rows of the database at the end. */
export interface Stored {
  readonly calls: readonly { call_id: string; idem_key: string | null; tool: string }[]
  readonly results: readonly { call_id: string; status: string; code: string | null; result: string | null }[]
  readonly queue: readonly { call_id: string; lease_until: unknown }[]
  readonly audit: readonly { call_id: string; fence: number; phase: string; config: string | null }[]
  readonly attempts: readonly { call_id: string; fence: number; outcome: string }[]
  readonly deadLetters: readonly { call_id: string | null; reason: string }[]
  /** The verification of the audit log. */
  readonly sealed: AuditVerdict
}

export async function readStored(database: Queries): Promise<Stored> {
  const read = <R extends object>(sql: string): Promise<readonly R[]> => database.query(sql) as never
  return {
    calls: await read('select call_id, idem_key, tool from calls'),
    results: await read('select call_id, status, code, result from results'),
    queue: await read('select call_id, lease_until from queue'),
    audit: await read('select call_id, fence, phase, config from audit order by seq'),
    attempts: await read('select call_id, fence, outcome from attempts'),
    deadLetters: await read('select call_id, reason from dead_letters'),
    sealed: await verifyAudit(readAudit(database, new AbortController().signal)),
  }
}

/** The invariants, each as the list of calls that break it; all lists of a sound run are empty. */
export interface Verdict {
  /** Requests without an outcome. */
  readonly lost: readonly string[]
  /** Effects that happened twice although they may not. */
  readonly doubled: readonly string[]
  /** Outcomes that contradict the recorded effect. */
  readonly untrue: readonly string[]
  /** Calls with two different outcomes, received or stored. */
  readonly twoEnds: readonly string[]
  /** Calls of a concurrency key with one slot that overlapped. */
  readonly disorder: readonly string[]
  /** Attempts whose start or end is missing in the audit log. */
  readonly unaudited: readonly string[]
  /** Findings of the audit verification. */
  readonly unverified: readonly string[]
  /** Calls that ended and are still queued. */
  readonly left: readonly string[]
  /** Keys under which more than one call was accepted. */
  readonly forked: readonly string[]
  /** Requests over a broker without a reply. */
  readonly unanswered: readonly string[]
  /** Requests over a broker with differing replies. */
  readonly unlike: readonly string[]
  /** Reported, not judged. */
  readonly counts: {
    readonly requests: number
    readonly ok: number
    readonly unknown: number
    readonly dead: number
    readonly effects: number
    /** Runs of a call beyond its first. */
    readonly repeated: number
    /** Of `reconcilable` tools: a late worker may act after its successor's lookup. */
    readonly reconciledTwice: number
    readonly attemptsLost: number
    readonly replies: number
    readonly seals: number
    /** Audit entries that were not sealed yet. */
    readonly unsealed: number
  }
}

export function judge({ requests, replies, effects, downstream, killed }: Ledgers, stored: Stored): Verdict {
  const acts = groupBy(
    effects.filter(({ what }) => what === 'act'),
    ({ id }) => id,
  )
  const done = groupBy(downstream, (id) => id)
  const results = new Map(stored.results.map((row) => [row.call_id, row]))
  const heard = groupBy(replies, ({ id }) => id)
  const ids = groupBy(requests, ({ id }) => id)
  // A gateway may prefix the id with its session.
  const named = new Map(stored.calls.map(({ call_id, idem_key }) => [idem_key?.split('/').at(-1), call_id]))
  const each = [...ids.values()].map(([first]) => placed(first as Request, named))
  const timesOf = (id: string, tool: string): number =>
    tool === 'keyed' || tool === 'alone' ? (done.get(id)?.length ?? 0) : (acts.get(id)?.length ?? 0)

  return {
    lost: each
      .filter(({ callId, id }) => !results.has(callId) && !(callId === '' && isRefused(heard.get(id))))
      .map(({ id }) => id),
    doubled: each
      .filter(({ tool }) => ['once', 'keyed', 'alone'].includes(tool))
      .filter(({ id, tool }) => timesOf(id, tool) > 1)
      .map(({ id, tool }) => `${id} (${tool}) ${timesOf(id, tool)} times`),
    untrue: each.flatMap(({ id, tool, callId }) => untruth(id, tool, results.get(callId), acts.get(id)?.length ?? 0)),
    twoEnds: each.flatMap(({ id, callId }) => {
      const row = results.get(callId)
      const stated = [...(heard.get(id) ?? []), ...(row === undefined ? [] : [{ ...row, code: row.code ?? undefined }])]
      const ends = new Set(stated.map(({ status, code }) => `${status} ${code ?? ''}`))
      const audited = stored.audit.filter((row) => row.call_id === callId && row.phase === 'end').length
      if (audited > 1) ends.add(`${audited} ends on the audit record`)
      return ends.size > 1 ? [`${id}: ${[...ends].join(' | ')}`] : []
    }),
    disorder: disorderOf(effects, killed),
    unaudited: unauditedOf(stored, effects),
    unverified: stored.sealed.findings.map(({ message }) => message),
    left: stored.queue.filter(({ call_id }) => results.has(call_id)).map(({ call_id }) => call_id),
    forked: [...ids].flatMap(([id, same]) => (new Set(same.flatMap((one) => one.callId ?? [])).size > 1 ? [id] : [])),
    unanswered: [...ids].flatMap(([id, same]) => {
      const waits = same.some(({ callId }) => callId === undefined)
      return waits && (heard.get(id)?.length ?? 0) === 0 ? [id] : []
    }),
    unlike: unlikeOf(replies),
    counts: {
      requests: each.length,
      ok: stored.results.filter(({ status }) => status === 'ok').length,
      unknown: stored.results.filter(({ status }) => status === 'unknown').length,
      dead: stored.deadLetters.length,
      effects: effects.filter(({ what }) => what === 'act').length,
      repeated: [...acts.values()].reduce((sum, { length }) => sum + length - 1, 0),
      reconciledTwice: each.filter(({ id, tool }) => tool === 'reconcilable' && timesOf(id, tool) > 1).length,
      attemptsLost: stored.attempts.filter(({ outcome }) => outcome === 'lost').length,
      replies: replies.length,
      seals: stored.sealed.seals,
      unsealed: stored.sealed.unsealed,
    },
  }
}

function placed({ callId, ...rest }: Request, named: ReadonlyMap<string | undefined, string>): Required<Request> {
  return { ...rest, callId: callId ?? named.get(rest.id) ?? '' }
}

/** Whether a reply over a broker reports an error. */
function isRefused(replies: readonly Reply[] = []): boolean {
  return replies.some(({ code, text }) => code !== undefined && text !== undefined)
}

function unlikeOf(replies: readonly Reply[]): string[] {
  const texts = new Map<string, Set<string>>()
  for (const { answers, text } of replies) {
    if (answers === undefined || text === undefined) continue
    const known = texts.get(answers)
    if (known === undefined) texts.set(answers, new Set([text]))
    else known.add(text)
  }
  return [...texts].flatMap(([id, all]) => (all.size > 1 ? [`${id}: ${[...all].join(' | ').slice(0, 500)}`] : []))
}

/** Fails with all broken invariants at once, or if fewer than `part` of the calls ended ok. */
export function assertSound({ counts, ...wrong }: Verdict, what: string, part = 0.6): void {
  const broken = Object.entries(wrong).filter(([, list]) => list.length > 0)
  assert.deepEqual(
    Object.fromEntries(broken.map(([name, list]) => [name, { count: list.length, first: list.slice(0, 5) }])),
    {},
    `${what}; ${JSON.stringify(counts)}`,
  )
  assert.ok(counts.seals > 0, `${what}: nothing of the audit record was sealed`)
  assert.ok(counts.ok >= part * counts.requests, `${what}: too few calls were done; ${JSON.stringify(counts)}`)
}

function untruth(id: string, tool: string, row: Stored['results'][number] | undefined, acts: number): string[] {
  if (row === undefined) return []
  if (row.status === 'ok' && acts === 0) return [`${id} (${tool}) is said to be done and is not`]
  const error = (JSON.parse(row.result ?? '{}') as { error?: { effect?: string } }).error
  const harmless = error?.effect === 'none' && tool !== 'read'
  return harmless && acts > 0 ? [`${id} (${tool}) is said not to have acted and did ${acts} times`] : []
}

/** A killed process never writes `leave`: the next call to enter after the kill does not overlap it. */
function disorderOf(effects: readonly Effect[], killed: Ledgers['killed']): string[] {
  const wrong: string[] = []
  let inside: Effect | undefined
  for (const line of effects) {
    if (line.what === 'enter') {
      const gone = inside === undefined || (killed.get(inside.pid) ?? Number.POSITIVE_INFINITY) < line.at
      if (!gone) wrong.push(`${line.id} beside ${inside?.id}`)
      inside = line
    } else if (line.what === 'leave' && inside?.callId === line.callId) inside = undefined
  }
  return wrong
}

/** Each start has an end, and each attempt and each effect has a start. */
function unauditedOf({ audit, attempts, results }: Stored, effects: readonly Effect[]): string[] {
  const at = ({ call_id, fence }: { call_id: string; fence: number }): string => `${call_id} ${fence}`
  const starts = new Set(audit.filter(({ phase }) => phase === 'start').map(at))
  const ends = new Set(audit.filter(({ phase }) => ['end', 'lost', 'released'].includes(phase)).map(at))
  const started = new Set(audit.filter(({ phase }) => phase === 'start').map(({ call_id }) => call_id))
  const ended = new Set(audit.filter(({ phase }) => phase === 'end').map(({ call_id }) => call_id))
  return [
    ...[...starts].filter((place) => !ends.has(place)).map((place) => `${place} has a start and no end`),
    ...attempts.map(at).flatMap((place) => (starts.has(place) ? [] : [`${place} was an attempt without a start`])),
    ...effects.flatMap(({ callId, id }) => (started.has(callId) ? [] : [`${id} acted without a start`])),
    ...results.flatMap(({ call_id }) => (ended.has(call_id) ? [] : [`${call_id} has a result and no end`])),
  ]
}

function groupBy<T>(list: readonly T[], of: (item: T) => string): Map<string, T[]> {
  const groups = new Map<string, T[]>()
  for (const item of list) groups.set(of(item), [...(groups.get(of(item)) ?? []), item])
  return groups
}
