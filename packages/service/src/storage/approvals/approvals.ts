import { createHash, hash } from 'node:crypto'
import { text as readText } from 'node:stream/consumers'
import {
  type ApprovalFile,
  type ApprovalView,
  type Identity,
  type JsonObject,
  type Paged,
  ToolError,
} from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Artifacts } from '../artifacts/artifact-records.ts'
import { noteAudit } from '../audit/entries.ts'
import type { PageQuery } from '../call-input.ts'
import { resume } from '../calls/sql/leases.ts'
import { type Database, type Queries, storable } from '../databases/database.ts'
import { readCursor, writeCursor } from '../page-cursor.ts'
import { seenValues, seesTool } from '../reader.ts'
import { type ApprovalRow, approvalOf, getSql, listSql } from './approval-rows.ts'
import { shownArgs } from './shown-args.ts'

/** One call that a person is asked about. */
export interface AskedCall {
  readonly tenant: string
  readonly principal: string
  /** The call that waits. */
  readonly callId: string
  /** The call that is asked about: the same, or one inside it. */
  readonly innerId: string
  readonly tool: string
  /** The arguments as a person may see them. */
  readonly shown: JsonObject
  /** JSON Pointers to what is hidden in them. */
  readonly hidden: readonly string[]
  /** What the ids of files in them stand for. */
  readonly files: readonly ApprovalFile[]
  /** Hash of all that the approval is bound to. */
  readonly fingerprint: string
  readonly reason: string
  readonly approvers: readonly string[]
  readonly withinMs: number
}

/** How a question stands. */
type Standing =
  | { readonly kind: 'open'; readonly id: string; readonly expiresMs: number }
  | { readonly kind: 'approve' | 'deny'; readonly by: string; readonly why?: string; readonly as?: 'owner' }
  | { readonly kind: 'expired' }

/**
 * Questions to persons, in the table `approvals`.
 *
 * A question is *open* from the moment a call asks it. It is decided once: *approved* or *denied* by a person while its
 * time lasts, or *expired* by whoever asks it again after that; the row is what they compete for, so one of them wins.
 * It is about one call with one fingerprint, so that another call, other arguments or another definition ask anew. When
 * its call ends without it, it is *void*. An approval counts while who gave it is one of those whom the policy asks; when
 * it asks others by the time the call goes on, they are asked in another question. A decision lets the call be claimed in the same transaction, and is audited there.
 * - Tenants: a question of another tenant, or about a tool that is not there for who looks, is NOT_FOUND, like one that
 *   never was.
 * - Errors: NOT_FOUND, DENIED, INPUT_INVALID for what cannot be decided any more, otherwise the store's.
 */
export interface ApprovalRecords {
  /** Asks, unless it was asked before, and tells how it stands. */
  ask(asked: AskedCall): Promise<Standing>
  /** The newest first, without arguments: those that the identity may decide on, and its own. */
  list(query: PageQuery & { readonly state?: 'open' | 'all' }, identity: Identity): Promise<Paged<ApprovalView>>
  /** With the arguments; long texts in them are cut unless `full` is asked for. */
  get(id: string, identity: Identity, options?: { readonly full?: boolean }): Promise<ApprovalView>
  /** Decides; the same decision of the same person a second time changes nothing. */
  decide(id: string, verdict: Verdict, by: Identity): Promise<ApprovalView>
}

export interface Verdict {
  readonly decision: 'approve' | 'deny'
  readonly reason?: string
}

/** Who holds it may decide on every question of its tenant, on its own only by a right of `ApprovalOptions.self`. */
const approvePermission = 'gantry:approve'

interface ApprovalOptions {
  /** Takes arguments that are too large for a row. */
  readonly artifacts?: Pick<Artifacts, 'keep' | 'content'>
  /** The most bytes that arguments may have as JSON. */
  readonly maxBytes?: () => number
  /** By which right a caller may decide on a call of its own; absent when it may not. */
  readonly self?: (by: Identity, queries: Queries) => Promise<'owner' | undefined>
}

const mostItems = 200
const longestArgs = 65_536
const usualMaxBytes = 100_000_000
/** How long the store of files may take for arguments. */
const storeMs = 60_000

export function approvalRecords(database: Database, options: ApprovalOptions = {}): ApprovalRecords {
  const { artifacts, maxBytes = () => usualMaxBytes, self = async () => undefined } = options
  const find = async (id: string, identity: Identity): Promise<FoundRow> => {
    const { tenant } = identity
    const [row] = idForm.test(id) ? await database.asTenant(tenant).query<FoundRow>(getSql, [tenant, id]) : []
    if (row !== undefined && seesTool(identity, row.tool)) return row
    throw new ToolError('NOT_FOUND', 'There is no approval of this id.')
  }
  const askedBefore = ({ tenant, callId, innerId, fingerprint }: AskedCall): Promise<readonly StandingRow[]> =>
    database.query<StandingRow>(standingSql, [tenant, callId, innerId, fingerprint])
  const keptArgs = async ({ tenant, principal, callId, shown }: AskedCall): Promise<KeptArgs> => {
    const text = JSON.stringify(shown)
    const content = Buffer.from(text)
    const facts = { bytes: content.length, sha256: hash('sha256', content) }
    if (artifacts === undefined || content.length <= longestArgs) return { ...facts, text }
    const holder = { callId, fence: 0 }
    const about = { tenant, principal, holder, name: 'approval.json', mimeType: 'application/json' }
    const how = { maxBytes: maxBytes(), signal: AbortSignal.timeout(storeMs) }
    return { ...facts, ref: (await artifacts.keep(content, about, how)).digest }
  }
  const write = async (id: string, asked: AskedCall): Promise<void> => {
    const { tenant, principal, callId, innerId, tool, reason } = asked
    const args = await keptArgs(asked)
    await database.transaction(async (queries) => {
      const made = await queries.query(askSql, rowOf(id, asked, args))
      if (made.length === 0) return
      const details = { approval: id, call: innerId, tool, reason, argsSha256: args.sha256 }
      await noteAudit(queries, { tenant, principal, action: 'approvals.ask', target: callId, details })
    })
  }
  const argsOf = async ({ args, args_ref: ref }: FoundRow): Promise<string | undefined> => {
    if (args !== null || ref === null) return args ?? undefined
    return artifacts === undefined ? undefined : readText(await artifacts.content(ref, AbortSignal.timeout(storeMs)))
  }
  const expire = (id: string, { tenant, callId, innerId, tool }: AskedCall): Promise<void> =>
    database.transaction(async (queries) => {
      if ((await queries.query(expireSql, [id])).length === 0) return
      const details = { approval: id, call: innerId, tool }
      await noteAudit(queries, { tenant, principal: 'gantry', action: 'approvals.expire', target: callId, details })
    })
  return {
    async ask(asked) {
      let before = await askedBefore(asked)
      let row = whatCounts(before, asked)
      if (row === undefined) await write(idOf(asked, before.length), asked)
      else if (row.decision === null && row.expires_ms <= 0) await expire(row.id, asked)
      else return standingOf(row)
      before = await askedBefore(asked)
      row = whatCounts(before, asked)
      if (row === undefined) throw new ToolError('INTERNAL', 'The question to a person is gone.')
      return standingOf(row)
    },
    async list({ limit = 50, cursor, state = 'open' }, identity) {
      const most = Math.min(Math.max(1, limit), mostItems)
      const { at, id } = readCursor(cursor)
      const { tenant, principal, roles = [] } = identity
      const rows = await database
        .asTenant(tenant)
        .query<ApprovalRow>(listSql[state], [
          ...[tenant, at, id, most + 1],
          ...[holds(identity, approvePermission), principal, roles, seenValues(identity)[0]],
        ])
      const items = rows.slice(0, most)
      const last = items.at(-1)
      const views = items.map(approvalOf)
      if (rows.length <= most || last === undefined) return { items: views }
      return { items: views, cursor: writeCursor({ at: last.place, id: last.id }) }
    },
    async get(id, identity, { full = false } = {}) {
      const row = await find(id, identity)
      if (row.principal !== identity.principal) refuseUnlessMay(row, identity)
      const text = await argsOf(row)
      const files = row.files === '[]' ? {} : { files: JSON.parse(row.files) as ApprovalFile[] }
      return { ...approvalOf(row), ...(text === undefined ? {} : shownArgs(text, full)), ...files }
    },
    async decide(id, { decision, reason }, by) {
      const row = await find(id, by)
      refuseUnlessMay(row, by)
      const done = await database.transaction(async (queries) => {
        const as = row.principal === by.principal ? await self(by, queries) : null
        if (as === undefined) throw own()
        const live = await queries.query('select from queue where call_id = $1 for update', [row.call_id])
        if (live.length === 0) return false
        const why = reason === undefined ? null : storable(reason)
        const roles = holds(by, approvePermission) ? null : JSON.stringify(by.roles ?? [])
        const decided = await queries.query(decideSql, [id, decision, by.principal, why, roles, as])
        if (decided.length === 0) return false
        await resume(queries, row.call_id)
        const { tenant, principal } = by
        const details = { approval: id, call: row.inner_id, tool: row.tool, fingerprint: row.fingerprint }
        const action = `approvals.${decision}`
        const how = as === null ? { why } : { why, self: as }
        await noteAudit(queries, { tenant, principal, action, target: row.call_id, details: { ...details, ...how } })
        return true
      })
      const view = approvalOf(await find(id, by))
      const same = view.state === states[decision] && view.decided?.by === by.principal
      if (!done && !same) throw over(view)
      return view
    },
  }
}

type FoundRow = ApprovalRow & { args: string | null; args_ref: string | null; files: string }
type StandingRow = {
  id: string
  decision: 'approve' | 'deny' | 'expired' | null
  decided_by: string | null
  decided_why: string | null
  decided_roles: readonly string[] | null
  decided_as: 'owner' | null
  expires_ms: number
}

const idForm = /^ap_[\w-]{32}$/
const states = { approve: 'approved', deny: 'denied' } as const

/** The same question has the same id, however often and by whomever it is asked; one that others are asked has another. */
function idOf({ tenant, innerId, fingerprint }: AskedCall, before: number): string {
  const hash = createHash('sha256').update(JSON.stringify([tenant, innerId, fingerprint, before]))
  return `ap_${hash.digest('base64url').slice(0, 32)}`
}

/** Arguments as JSON, which spells out what SQL cannot hold, or the digest of a file with it. */
interface KeptArgs {
  readonly bytes: number
  readonly sha256: string
  readonly text?: string
  readonly ref?: string
}

function rowOf(
  id: string,
  asked: AskedCall,
  { text = null, ref = null, bytes, sha256 }: Nullable<KeptArgs>,
): unknown[] {
  const { tenant, callId, innerId, tool, fingerprint, withinMs, principal, reason, approvers, hidden, files } = asked
  return [
    ...[id, tenant, callId, innerId, tool, fingerprint, withinMs, principal, storable(reason)],
    ...[JSON.stringify(approvers), text, bytes, ref, sha256, JSON.stringify(hidden), JSON.stringify(files)],
  ]
}

type Nullable<T> = { [Key in keyof T]: T[Key] | null }

/**
 * Which of the questions on a call tells how it stands: one that was not approved, because a denial stays one whoever is
 * asked now; else an approval by somebody who is asked now. Undefined when they have to be asked.
 */
function whatCounts(rows: readonly StandingRow[], { approvers }: AskedCall): StandingRow | undefined {
  const may = ({ decided_roles: roles }: StandingRow): boolean =>
    roles === null || roles.some((role) => approvers.includes(role))
  return rows.find(({ decision }) => decision !== 'approve') ?? rows.find(may)
}

function standingOf(row: StandingRow): Standing {
  const { id, decision, decided_by: by, decided_why: why, decided_as: as, expires_ms: expiresMs } = row
  if (decision === null) return { kind: 'open', id, expiresMs: Math.max(0, expiresMs) }
  if (decision === 'expired') return { kind: 'expired' }
  const how = { ...(why === null ? {} : { why }), ...(as === null ? {} : { as }) }
  return { kind: decision, by: by ?? 'unnamed', ...how }
}

function refuseUnlessMay({ approvers }: ApprovalRow, identity: Identity): void {
  if (holds(identity, approvePermission)) return
  if (identity.roles?.some((role) => approvers.includes(role))) return
  const roles = approvers.length === 0 ? '' : `, or one of the roles ${approvers.join(', ')}`
  throw new ToolError('DENIED', `Only who has the permission ${approvePermission}${roles} may see or decide this.`)
}

function own(): ToolError {
  const message =
    'A principal cannot decide on its own call. Decide with a key of another principal that holds gantry:approve ' +
    '(gantry keys create), or set approvals.self to "owner" for the owner key of the service.'
  return new ToolError('DENIED', message, { details: { own: true } })
}

function over({ state, decided }: ApprovalView): ToolError {
  const by = decided === undefined ? '' : ` by ${decided.by}`
  const how = state === 'void' ? 'is void, because its call has ended' : `was ${state}${by} before`
  return new ToolError('INPUT_INVALID', `The approval ${how}.`, { stage: 'admit', details: { state } })
}

const standingSql = `
  select id, decision, decided_by, decided_why, decided_roles, decided_as,
    (extract(epoch from expires_at - clock_timestamp()) * 1000)::float8 as expires_ms
  from approvals where tenant = $1 and call_id = $2 and inner_id = $3 and fingerprint = $4 order by asked_at, id`

const askSql = `
  insert into approvals (
    id, tenant, call_id, inner_id, tool, fingerprint, expires_at, principal, reason, approvers, args, args_bytes,
    args_ref, args_sha256, hidden, files)
  values (
    $1, $2, $3, $4, $5, $6, now() + $7::float8 * interval '1 millisecond', $8, $9, $10::jsonb, $11, $12, $13, $14,
    $15, $16)
  on conflict (id) do nothing returning id`

// The clock, and not the time at which the transaction began: it may have waited for the row in between.
const expireSql = `
  update approvals set decision = 'expired', decided_at = now()
  where id = $1 and decision is null and expires_at <= clock_timestamp() returning id`

const decideSql = `
  update approvals set decision = $2, decided_by = $3, decided_why = $4, decided_roles = $5::jsonb, decided_as = $6,
    decided_at = now()
  where id = $1 and decision is null and expires_at > clock_timestamp() returning id`

interface OwnerApprovalParts {
  /** Whose the key file is. The authenticator of the key file answers with this very object, and no other one does. */
  readonly owner: Identity
  /** Whether this process has the database to itself. */
  readonly exclusive: boolean
  readonly settings: Pick<ServiceSettings, 'approvals' | 'authentication'>
}

/**
 * Says whether a caller may decide on its own call. Only the key in the key file ever may: an identity with the same name
 * and rights from a stored key, its successor, a token or a signature is another object. Where the configuration does not
 * say, it may as long as no other key could decide: an embedded service without any other live key and without tokens.
 * - Time: asked within the transaction of the decision.
 */
export function ownerApproval({ owner, exclusive, settings }: OwnerApprovalParts) {
  return async (by: Identity, queries: Queries): Promise<'owner' | undefined> => {
    const { approvals, authentication } = settings
    if (by !== owner || approvals.self === 'never') return undefined
    if (approvals.self === 'owner') return 'owner'
    if (!exclusive || authentication.jwt.length > 0) return undefined
    return (await queries.query(otherKeySql)).length === 0 ? 'owner' : undefined
  }
}

const otherKeySql = 'select from api_keys where revoked_at is null and expires_at > now() limit 1'
