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
import { resume } from '../calls/sql/leases.ts'
import { type Database, type Queries, storable } from '../databases/database.ts'
import { outboxPosts } from '../outbox/outbox.ts'
import { type PageQuery, pageOf, pageSize, readCursor } from '../page-cursor.ts'
import { seenValues, seesTool } from '../reader.ts'
import { type ApprovalRow, approvalOf, type FoundRow, getSql, listSql, webhookOf } from './approval-rows.ts'
import { shownArgs } from './shown-args.ts'

/** A call that needs an approval. */
export interface ApprovalCall {
  readonly tenant: string
  readonly principal: string
  /** The call that waits for the decision. */
  readonly callId: string
  /** The call to approve: the same, or one inside it. */
  readonly innerId: string
  readonly tool: string
  /** The arguments as approvers see them. */
  readonly shown: JsonObject
  /** JSON Pointers to hidden parts of the arguments. */
  readonly hidden: readonly string[]
  /** The files that the arguments name by id. */
  readonly files: readonly ApprovalFile[]
  /** Hash of everything that the approval is bound to. */
  readonly fingerprint: string
  readonly reason: string
  readonly approvers: readonly string[]
  readonly withinMs: number
}

/** The state of an approval. */
type ApprovalState =
  | { readonly kind: 'open'; readonly id: string; readonly expiresMs: number }
  | { readonly kind: 'approve' | 'deny'; readonly by: string; readonly why?: string; readonly as?: 'owner' }
  | { readonly kind: 'expired' }

/**
 * Approvals, in the table `approvals`.
 *
 * States: `open` → `approved` | `denied` | `expired` | `void`
 *
 * - → `open`: a call needs an approval. It is for one call with one fingerprint; another call, other arguments or
 *   another definition need a new one.
 * - `open` → `approved` or `denied`: an approver decides before it expires. The same transaction writes the audit entry
 *   and makes the call claimable.
 * - `open` → `expired`: the call requests it again after the time limit. Only one of these transitions wins.
 * - `open` → `void`: the call ended.
 *
 * An approval is valid while the policy names its approver; when it names others by the time the call continues, they
 * get an approval of their own to decide.
 * - Tenants: an approval of another tenant, or for a tool that is hidden from the reader, is NOT_FOUND.
 * - Errors: NOT_FOUND, DENIED, INPUT_INVALID for an approval that is no longer open, otherwise the store's.
 */
export interface ApprovalRecords {
  /** Requests an approval, unless it exists, and returns its state. */
  ask(asked: ApprovalCall): Promise<ApprovalState>
  /** Newest first, without arguments: those that the identity may decide, and those of its own calls. */
  list(query: PageQuery & { readonly state?: 'open' | 'all' }, identity: Identity): Promise<Paged<ApprovalView>>
  /** With the arguments, truncated unless `full`. */
  get(id: string, identity: Identity, options?: { readonly full?: boolean }): Promise<ApprovalView>
  /** Decides; repeating the same decision changes nothing. */
  decide(id: string, verdict: Verdict, by: Identity): Promise<ApprovalView>
  /** As an approver of the tenant sees it, for a message about it; undefined when it is no longer stored. */
  news(id: string, tenant: string): Promise<ApprovalView | undefined>
}

export interface Verdict {
  readonly decision: 'approve' | 'deny'
  readonly reason?: string
}

/** Its holder may decide every approval of its tenant; those of its own calls only by `ApprovalOptions.self`. */
const approvePermission = 'gantry:approve'

interface ApprovalOptions {
  /** Stores arguments that are too large for a row. */
  readonly artifacts?: Pick<Artifacts, 'keep' | 'content'>
  /** Size limit of the arguments as JSON. */
  readonly maxBytes?: () => number
  /** The right by which a caller may decide on its own call; undefined when it may not. */
  readonly self?: (by: Identity, queries: Queries) => Promise<'owner' | undefined>
  /** Whether a webhook gets messages about approvals; the outbox has them from the same transaction on. */
  readonly announces?: () => boolean
}

const longestArgs = 65_536
const usualMaxBytes = 100_000_000
/** Time limit of the artifact store for arguments. */
const storeMs = 60_000

export function approvalRecords(database: Database, options: ApprovalOptions = {}): ApprovalRecords {
  const { artifacts, maxBytes = () => usualMaxBytes, self = async () => undefined, announces = () => false } = options
  const rowOfId = async (id: string, tenant: string): Promise<FoundRow | undefined> => {
    const [row] = idForm.test(id) ? await database.asTenant(tenant).query<FoundRow>(getSql, [tenant, id]) : []
    return row
  }
  const find = async (id: string, identity: Identity): Promise<FoundRow> => {
    const row = await rowOfId(id, identity.tenant)
    if (row !== undefined && seesTool(identity, row.tool)) return row
    throw new ToolError('NOT_FOUND', 'There is no approval of this id.')
  }
  const askedBefore = ({ tenant, callId, innerId, fingerprint }: ApprovalCall): Promise<readonly ApprovalStateRow[]> =>
    database.query<ApprovalStateRow>(approvalStateSql, [tenant, callId, innerId, fingerprint])
  const storedArgs = async ({ tenant, principal, callId, shown }: ApprovalCall): Promise<StoredArgs> => {
    const text = JSON.stringify(shown)
    const content = Buffer.from(text)
    const facts = { bytes: content.length, sha256: hash('sha256', content) }
    if (artifacts === undefined || content.length <= longestArgs) return { ...facts, text }
    const holder = { callId, fence: 0 }
    const about = { tenant, principal, holder, name: 'approval.json', mimeType: 'application/json' }
    const how = { maxBytes: maxBytes(), signal: AbortSignal.timeout(storeMs) }
    return { ...facts, ref: (await artifacts.keep(content, about, how)).digest }
  }
  const write = async (id: string, asked: ApprovalCall): Promise<void> => {
    const { tenant, principal, callId, innerId, tool, reason } = asked
    const args = await storedArgs(asked)
    await database.transaction(async (queries) => {
      const made = await queries.query(askSql, rowOf(id, asked, args))
      if (made.length === 0) return
      const details = { approval: id, call: innerId, tool, reason, argsSha256: args.sha256 }
      await noteAudit(queries, { tenant, principal, action: 'approvals.ask', target: callId, details })
      await announce(queries, { id, tenant, callId }, 'requested')
    })
  }
  const argsOf = async ({ args, args_ref: ref }: FoundRow): Promise<string | undefined> => {
    if (args !== null || ref === null) return args ?? undefined
    return artifacts === undefined ? undefined : readText(await artifacts.content(ref, AbortSignal.timeout(storeMs)))
  }
  const announce = async (queries: Queries, { id, tenant, callId }: About, what: News): Promise<void> => {
    if (!announces()) return
    const item = `approval:${id}:${what}`
    const body = JSON.stringify({ approval: id, what })
    await outboxPosts(queries).post([{ callId, tenant, kind: 'approval', target: webhookTarget, body, item }])
  }
  const whole = async (row: FoundRow, full: boolean): Promise<ApprovalView> => {
    const text = await argsOf(row)
    const files: readonly ApprovalFile[] = JSON.parse(row.files)
    const shown = text === undefined ? {} : shownArgs(text, full)
    return { ...approvalOf(row), ...shown, ...(files.length === 0 ? {} : { files }) }
  }
  const expire = (id: string, { tenant, callId, innerId, tool }: ApprovalCall): Promise<void> =>
    database.transaction(async (queries) => {
      if ((await queries.query(expireSql, [id])).length === 0) return
      const details = { approval: id, call: innerId, tool }
      await noteAudit(queries, { tenant, principal: 'gantry', action: 'approvals.expire', target: callId, details })
      await announce(queries, { id, tenant, callId }, 'decided')
    })
  return {
    async ask(asked) {
      let before = await askedBefore(asked)
      let row = whatCounts(before, asked)
      if (row === undefined) await write(idOf(asked, before.length), asked)
      else if (row.decision === null && row.expires_ms <= 0) await expire(row.id, asked)
      else return approvalStateOf(row)
      before = await askedBefore(asked)
      row = whatCounts(before, asked)
      if (row === undefined) throw new ToolError('INTERNAL', 'The approval was removed while it was requested.')
      return approvalStateOf(row)
    },
    async list({ limit, cursor, state = 'open' }, identity) {
      const most = pageSize(limit)
      const { at, id } = readCursor(cursor)
      const { tenant, principal, roles = [] } = identity
      const rows = await database
        .asTenant(tenant)
        .query<ApprovalRow>(listSql[state], [
          tenant,
          at,
          id,
          most + 1,
          holds(identity, approvePermission),
          principal,
          roles,
          seenValues(identity)[0],
        ])
      return pageOf(rows, most, { itemOf: approvalOf, idOf: (row) => row.id })
    },
    async get(id, identity, { full = false } = {}) {
      const row = await find(id, identity)
      if (row.principal !== identity.principal) refuseUnlessMay(row, identity)
      return { ...(await whole(row, full)), ...(mayDecide(row, identity) ? webhookOf(row) : {}) }
    },
    async news(id, tenant) {
      const row = await rowOfId(id, tenant)
      return row && whole(row, false)
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
        await announce(queries, { id, tenant, callId: row.call_id }, 'decided')
        return true
      })
      const view = approvalOf(await find(id, by))
      const same = view.state === states[decision] && view.decided?.by === by.principal
      if (!done && !same) throw over(view)
      return view
    },
  }
}

/** The target of messages about approvals; the relay knows the URL, so that a reload changes that of waiting ones too. */
const webhookTarget = 'approvals.webhook'

/** What a message about an approval says. */
export type News = 'requested' | 'decided'

interface About {
  readonly id: string
  readonly tenant: string
  readonly callId: string
}

type ApprovalStateRow = {
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

/** Requests with the same content have the same id; one for other approvers has another. */
function idOf({ tenant, innerId, fingerprint }: ApprovalCall, before: number): string {
  const hash = createHash('sha256').update(JSON.stringify([tenant, innerId, fingerprint, before]))
  return `ap_${hash.digest('base64url').slice(0, 32)}`
}

/** Arguments as JSON, which escapes characters that SQL text cannot contain, or the digest of a file with it. */
interface StoredArgs {
  readonly bytes: number
  readonly sha256: string
  readonly text?: string
  readonly ref?: string
}

function rowOf(
  id: string,
  asked: ApprovalCall,
  { text = null, ref = null, bytes, sha256 }: Nullable<StoredArgs>,
): unknown[] {
  const { tenant, callId, innerId, tool, fingerprint, withinMs, principal, reason, approvers, hidden, files } = asked
  return [
    id,
    tenant,
    callId,
    innerId,
    tool,
    fingerprint,
    withinMs,
    principal,
    storable(reason),
    JSON.stringify(approvers),
    text,
    bytes,
    ref,
    sha256,
    JSON.stringify(hidden),
    JSON.stringify(files),
  ]
}

type Nullable<T> = { [Key in keyof T]: T[Key] | null }

/**
 * The approval that is decisive for a call: one that was not approved, because a denial is valid whichever approvers
 * the policy names now; else one approved by one of these approvers. Undefined when a new approval is needed.
 */
function whatCounts(rows: readonly ApprovalStateRow[], { approvers }: ApprovalCall): ApprovalStateRow | undefined {
  const may = ({ decided_roles: roles }: ApprovalStateRow): boolean =>
    roles === null || roles.some((role) => approvers.includes(role))
  return rows.find(({ decision }) => decision !== 'approve') ?? rows.find(may)
}

function approvalStateOf(row: ApprovalStateRow): ApprovalState {
  const { id, decision, decided_by: by, decided_why: why, decided_as: as, expires_ms: expiresMs } = row
  if (decision === null) return { kind: 'open', id, expiresMs: Math.max(0, expiresMs) }
  if (decision === 'expired') return { kind: 'expired' }
  const how = { ...(why === null ? {} : { why }), ...(as === null ? {} : { as }) }
  return { kind: decision, by: by ?? 'unnamed', ...how }
}

function mayDecide({ approvers }: ApprovalRow, identity: Identity): boolean {
  return holds(identity, approvePermission) || identity.roles?.some((role) => approvers.includes(role)) === true
}

function refuseUnlessMay(row: ApprovalRow, identity: Identity): void {
  if (mayDecide(row, identity)) return
  const { approvers } = row
  const roles = approvers.length === 0 ? '' : `, or one of the roles ${approvers.join(', ')}`
  throw new ToolError('DENIED', `To see or decide this approval, you need the permission ${approvePermission}${roles}.`)
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

const approvalStateSql = `
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

// clock_timestamp() instead of now(), because the transaction may have waited for the row.
const expireSql = `
  update approvals set decision = 'expired', decided_at = now()
  where id = $1 and decision is null and expires_at <= clock_timestamp() returning id`

const decideSql = `
  update approvals set decision = $2, decided_by = $3, decided_why = $4, decided_roles = $5::jsonb, decided_as = $6,
    decided_at = now()
  where id = $1 and decision is null and expires_at > clock_timestamp() returning id`

interface OwnerApprovalParts {
  /** The identity of the key file. Only the authenticator of the key file returns this very object. */
  readonly owner: Identity
  /** Whether this process has the database to itself. */
  readonly exclusive: boolean
  readonly settings: Pick<ServiceSettings, 'approvals' | 'authentication'>
}

/**
 * Whether a caller may decide on its own call. Only the key of the key file may: an identity with the same name and
 * rights from a stored key, its successor, a token or a signature is another object. By default it may while no other
 * key could decide: in an embedded service without other live keys and without tokens.
 * - Time: checked within the transaction of the decision.
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
