import { type Identity, type KeyView, type Paged, ToolError } from '@gantry/contract'
import { holds } from '@gantry/core/internal/pipeline/authorize'
import { type AuditNote, noteAudit } from '../audit/entries.ts'
import type { Database, Queries } from '../databases/database.ts'
import { cursorTime, type PageQuery, pageOf, pageSize, readCursor } from '../page-cursor.ts'

/** Verifies a key: the SHA-256 of a bearer key, or the public key of a signing key, in base64url. */
export type Verifier = { readonly digest: string } | { readonly publicKey: string }

export interface NewKey {
  readonly id: string
  readonly name: string
  readonly identity: Identity
  readonly verifier: Verifier
  /** Lifetime of the key. */
  readonly lifeMs: number
}

/** A key that is neither expired nor revoked. */
export interface LiveKey {
  readonly id: string
  readonly identity: Identity
  readonly verifier: Verifier
  /** Time until it expires, by the clock of the database. */
  readonly leftMs: number
}

/**
 * API keys, in the table `api_keys`. A change notifies the channel `gantry_keys` of the key's id and writes an audit
 * entry, in the same transaction.
 *
 * States: `live` → `expired` | `revoked`
 *
 * - → `live`: it is made, or made as the successor of a key that is rotated.
 * - `live` → `expired`: its time passed; for a rotated key, the overlap with its successor passed.
 * - `live` → `revoked`: an administrator revokes it.
 *
 * A key with a successor that is not revoked cannot be rotated again.
 * - Tenants: `tenant` undefined stands for all of them; a key of another one is NOT_FOUND, like one that never was.
 * - Time: all of it is the database's, and goes in and out as durations.
 */
export interface KeyRecords {
  /**
   * With `unclaimed`, DENIED when there is or ever was a key of this principal in its tenant that another maker made;
   * of two concurrent requests for the same principal, one gets it.
   */
  add(key: NewKey, by: Identity, options?: { readonly unclaimed: boolean }): Promise<KeyView>
  /** Newest first, with expired and revoked keys. */
  list(query: PageQuery, tenant: string | undefined): Promise<Paged<KeyView>>
  get(id: string, tenant: string | undefined): Promise<KeyView>
  /** INPUT_INVALID for a key that is expired, revoked or rotated; with `unclaimed`, DENIED as for `add`. */
  rotate(
    id: string,
    next: NewKey,
    overlapMs: number,
    by: Identity,
    options?: { readonly unclaimed: boolean },
  ): Promise<KeyView>
  /** Revoking again changes nothing. */
  revoke(id: string, tenant: string | undefined, by: Identity): Promise<KeyView>
  /** The calls of a principal that no worker holds: queued, delayed or waiting for an approval. */
  pending(tenant: string, principal: string): Promise<readonly string[]>
  /** The live keys among these ids. */
  find(ids: readonly string[]): Promise<readonly LiveKey[]>
  /** Updates the time of last use, at most once a minute. */
  used(ids: readonly string[]): Promise<void>
}

export const keyChannel = 'gantry_keys'

export function keyRecords(database: Database): KeyRecords {
  const reads = (tenant: string | undefined): Queries => (tenant === undefined ? database : database.asTenant(tenant))
  const get = async (id: string, tenant: string | undefined): Promise<KeyView> => {
    const [row] = await reads(tenant).query<KeyRow>(getSql, [id, tenant ?? null])
    if (row === undefined) throw new ToolError('NOT_FOUND', 'There is no key of this id.')
    return viewOf(row)
  }
  return {
    get,
    async add(key, by, { unclaimed } = { unclaimed: false }) {
      await database.transaction(async (queries) => {
        await claim(queries, key.identity, by, unclaimed)
        await queries.query(insertSql, [...valuesOf(key, by), null])
        await noteAudit(queries, noteOf('keys.create', key.id, key, by))
      })
      return get(key.id, undefined)
    },
    async list({ limit, cursor }, tenant) {
      const most = pageSize(limit)
      const { at, id } = readCursor(cursor)
      const rows = await reads(tenant).query<KeyRow>(listSql, [tenant ?? null, at, id, most + 1])
      return pageOf(rows, most, { itemOf: viewOf, idOf: (row) => row.id })
    },
    async rotate(id, next, overlapMs, by, { unclaimed } = { unclaimed: false }) {
      await database.transaction(async (queries) => {
        await claim(queries, next.identity, by, unclaimed)
        // A concurrent rotation of the same key waits here, and finds the successor with the next statement.
        await queries.query(lockSql, [id])
        const ended = await queries.query(endSql, [id, overlapMs])
        if (ended.length === 0) {
          throw new ToolError('INPUT_INVALID', 'The key is expired, revoked or rotated; rotate its successor.', {
            stage: 'admit',
          })
        }
        await queries.query(insertSql, [...valuesOf(next, by), id])
        await noteAudit(queries, noteOf('keys.rotate', id, next, by))
        await queries.query(notifySql, [id])
      })
      return get(next.id, undefined)
    },
    async revoke(id, tenant, by) {
      const { tenant: of, name } = await get(id, tenant)
      await database.transaction(async (queries) => {
        const revoked = await queries.query(revokeSql, [id])
        if (revoked.length === 0) return
        const who = { tenant: by.tenant, principal: by.principal }
        await noteAudit(queries, { ...who, action: 'keys.revoke', target: id, details: { tenant: of, name } })
        await queries.query(notifySql, [id])
      })
      return get(id, tenant)
    },
    async pending(tenant, principal) {
      const rows = await database.query<{ call_id: string }>(pendingSql, [tenant, principal])
      return rows.map(({ call_id: callId }) => callId)
    },
    async find(ids) {
      const rows = await database.query<LiveRow>(findSql, [JSON.stringify(ids)])
      return rows.map(liveOf)
    },
    async used(ids) {
      await database.query(usedSql, [JSON.stringify(ids)])
    },
  }
}

/** Serializes makers of keys of one principal, and refuses those to whom the principal does not belong. */
async function claim(
  queries: Queries,
  { tenant, principal }: Identity,
  by: Identity,
  unclaimed: boolean,
): Promise<void> {
  await queries.query(claimSql, [tenant, principal])
  const taken = unclaimed ? await queries.query(takenSql, [tenant, principal, makerOf(by, tenant)]) : []
  if (taken.length > 0) throw takenError()
}

/** DENIED: the principal belongs to another maker. */
export function takenError(): ToolError {
  return new ToolError(
    'DENIED',
    'Another maker has or had a key of this principal; choose another name, or ask a holder of the permission *.',
  )
}

/** The maker as the key names it: with the tenant when that is another one, because principals are unique per tenant. */
export function makerOf(by: Identity, tenant: string): string {
  return by.tenant === tenant ? by.principal : `${by.tenant}/${by.principal}`
}

function valuesOf({ id, name, identity, verifier, lifeMs }: NewKey, by: Identity): unknown[] {
  const { tenant, principal, permissions, roles = [], tools } = identity
  return [
    id,
    tenant,
    principal,
    name,
    JSON.stringify(permissions),
    JSON.stringify(roles),
    tools === undefined ? null : JSON.stringify(tools),
    'digest' in verifier ? verifier.digest : null,
    'publicKey' in verifier ? verifier.publicKey : null,
    makerOf(by, tenant),
    lifeMs,
  ]
}

/** The audit entry has the grants of the new key, and not its verifier. */
function noteOf(action: string, target: string, { id, name, identity }: NewKey, by: Identity): AuditNote {
  const { tenant, principal, permissions, roles = [], tools } = identity
  const details = { id, name, tenant, principal, permissions, roles, tools: tools ?? null }
  return { tenant: by.tenant, principal: by.principal, action, target, details }
}

type IdentityColumns = {
  tenant: string
  principal: string
  permissions: string
  roles: string
  tools: string | null
}

type KeyRow = IdentityColumns & {
  id: string
  kind: KeyView['kind']
  name: string
  state: KeyView['state']
  place: string
  created_at: Date
  created_by: string
  expires_at: Date
  revoked_at: Date | null
  last_used_at: Date | null
  replaces: string | null
}

type LiveRow = IdentityColumns & { id: string; digest: string | null; public_key: string | null; left_ms: number }

function viewOf(row: KeyRow): KeyView {
  const { id, kind, name, tenant, principal, state } = row
  return {
    id,
    kind,
    name,
    tenant,
    principal,
    permissions: JSON.parse(row.permissions),
    roles: JSON.parse(row.roles),
    ...(row.tools === null ? {} : { tools: JSON.parse(row.tools) }),
    state,
    createdAt: row.created_at.toISOString(),
    createdBy: row.created_by,
    expiresAt: row.expires_at.toISOString(),
    ...(row.revoked_at === null ? {} : { revokedAt: row.revoked_at.toISOString() }),
    ...(row.last_used_at === null ? {} : { lastUsedAt: row.last_used_at.toISOString() }),
    ...(row.replaces === null ? {} : { replaces: row.replaces }),
  }
}

function liveOf(row: LiveRow): LiveKey {
  const { id, tenant, principal, digest, public_key: publicKey, left_ms: leftMs } = row
  const identity: Identity = {
    tenant,
    principal,
    permissions: JSON.parse(row.permissions),
    roles: JSON.parse(row.roles),
    ...(row.tools === null ? {} : { tools: JSON.parse(row.tools) }),
  }
  return { id, identity, verifier: digest === null ? { publicKey: publicKey ?? '' } : { digest }, leftMs }
}

const columns = `
  id, tenant, principal, name, permissions, roles, tools, created_at, created_by, expires_at, revoked_at, last_used_at,
  replaces, case when digest is null then 'signing' else 'bearer' end as kind,
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'live' end as state,
  ${cursorTime('created_at')} as place`

const live = 'revoked_at is null and expires_at > now()'
const later = (parameter: string): string => `now() + ${parameter}::float8 * interval '1 millisecond'`

const insertSql = `
  insert into api_keys
    (id, tenant, principal, name, permissions, roles, tools, digest, public_key, created_by, expires_at, replaces)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${later('$11')}, $12)`

/** Serializes concurrent makers of keys of one principal, so that the second finds the key of the first. */
const claimSql = `select pg_advisory_xact_lock(hashtextextended(json_build_array($1::text, $2::text)::text, 4))`

/** $3: the maker whose earlier keys are allowed. */
const takenSql = `
  select from api_keys where tenant = $1 and principal = $2
  having count(*) > 0 and count(*) filter (where created_by = $3 and replaces is null) = 0`

/** Calls that no worker holds. */
const pendingSql = `
  select c.call_id from queue q join calls c on c.call_id = q.call_id
  where c.tenant = $1 and c.principal = $2 and q.lease_until is null`

const getSql = `select ${columns} from api_keys where id = $1 and ($2::text is null or tenant = $2)`

const listSql = `
  select ${columns} from api_keys
  where ($1::text is null or tenant = $1) and (created_at, id) < ($2::timestamptz, $3::text)
  order by created_at desc, id desc
  limit $4`

const lockSql = 'select from api_keys where id = $1 for update'

const endSql = `
  update api_keys k set expires_at = least(expires_at, ${later('$2')})
  where id = $1 and ${live}
    and not exists (select from api_keys n where n.replaces = k.id and n.revoked_at is null)
  returning id`

const revokeSql = 'update api_keys set revoked_at = now() where id = $1 and revoked_at is null returning id'

const notifySql = `select pg_notify('gantry_keys', $1)`

const named = 'array(select json_array_elements_text($1::json))'

const findSql = `
  select id, tenant, principal, permissions, roles, tools, digest, public_key,
    extract(epoch from expires_at - now())::float8 * 1000 as left_ms
  from api_keys where id = any (${named}) and ${live}`

// One of many processes that used a key in the same minute writes it.
const usedSql = `
  update api_keys set last_used_at = now()
  where id = any (${named}) and (last_used_at is null or last_used_at < now() - interval '1 minute')`

/** The permission to make and see keys of other tenants. */
export const everyTenant = 'gantry:tenants'

/**
 * Refuses a key that grants more than its maker holds: permissions, roles, tools, a tenant or another principal. Throws
 * DENIED.
 */
export function refuseBeyond(grant: Identity, maker: Identity): void {
  const { tenant, principal, permissions, roles = [], tools } = grant
  const all = holds(maker, '*')
  if (tenant !== maker.tenant && !holds(maker, everyTenant)) throw denied(`keys of another tenant (${everyTenant})`)
  const more = permissions.find((permission) => !holds(maker, permission))
  if (more !== undefined) throw denied(`the permission ${JSON.stringify(more)}`)
  const role = all ? undefined : roles.find((one) => !maker.roles?.includes(one))
  if (role !== undefined) throw denied(`the role ${JSON.stringify(role)}`)
  if (!all && !isOwn(grant, maker) && !principal.startsWith('key:')) {
    throw new ToolError(
      'DENIED',
      'The principal of a new key must be your own or begin with key:; any other needs the permission *.',
    )
  }
  if (maker.tools === undefined) return
  const tool = tools === undefined ? '*' : tools.find((pattern) => !covers(maker.tools ?? [], pattern))
  if (tool !== undefined) throw denied(`the tools ${JSON.stringify(tool)}`)
}

/** Whether a key would be the maker's own. */
export function isOwn({ tenant, principal }: Identity, maker: Identity): boolean {
  return principal === maker.principal && tenant === maker.tenant
}

/** Whether the other patterns cover every tool of a pattern; false when it cannot be decided. */
function covers(wide: readonly string[], pattern: string): boolean {
  return wide.some(
    (one) =>
      one === pattern || (one.endsWith('*') ? pattern.startsWith(one.slice(0, -1)) : pattern.startsWith(`${one}:`)),
  )
}

function denied(what: string): ToolError {
  return new ToolError('DENIED', `A key can grant only what its maker holds, which ${what} is not.`)
}

/** The nonce of a signed request, which can be used once. */
export interface Nonce {
  readonly keyId: string
  readonly nonce: string
}

/** Nonces of signed requests, in the table `nonces`. Across all processes, each is accepted once. */
export interface NonceRecords {
  /** Records nonces; returns for each, in order, whether it was new. */
  use(nonces: readonly Nonce[]): Promise<readonly boolean[]>
  /** Removes nonces whose request has expired. */
  forget(): Promise<void>
}

export function nonceRecords(database: Queries): NonceRecords {
  return {
    async use(nonces) {
      const items = nonces.map(({ keyId, nonce }) => ({ key_id: keyId, nonce }))
      const rows = await database.query<{ key_id: string; nonce: string }>(useSql, [JSON.stringify(items)])
      const fresh = new Set(rows.map((row) => `${row.key_id} ${row.nonce}`))
      // Of equal nonces in one batch only the first is new.
      return nonces.map(({ keyId, nonce }) => fresh.delete(`${keyId} ${nonce}`))
    },
    async forget() {
      await database.query(forgetSql)
    },
  }
}

const useSql = `
  insert into nonces (key_id, nonce)
  select distinct key_id, nonce from json_to_recordset($1::json) as n(key_id text, nonce text) order by 1, 2
  on conflict do nothing
  returning key_id, nonce`

/** Three times the validity of a request, to tolerate clock differences of minutes. */
const forgetSql = `delete from nonces where used_at < now() - interval '15 minutes'`
