import { type Identity, type KeyView, type Paged, ToolError } from '@gantry/contract'
import { type AuditNote, noteAudit } from '../audit/entries.ts'
import type { PageQuery } from '../call-input.ts'
import type { Database, Queries } from '../databases/database.ts'
import { readCursor, writeCursor } from '../page-cursor.ts'

/** Tells whether somebody has a key: the SHA-256 of one that is sent, or the public half of one that signs, in base64url. */
export type Verifier = { readonly digest: string } | { readonly publicKey: string }

export interface NewKey {
  readonly id: string
  readonly name: string
  readonly identity: Identity
  readonly verifier: Verifier
  /** How long it is good for. */
  readonly lifeMs: number
}

/** A key that is good now. */
export interface LiveKey {
  readonly id: string
  readonly identity: Identity
  readonly verifier: Verifier
  /** How long still, by the clock of the database. */
  readonly leftMs: number
}

/**
 * Keys of the API, in the table `api_keys`; whoever changes one tells the channel `gantry_keys` its id, and the audit who
 * did it, in the same transaction.
 *
 * A key is *live* from its making until it *expires* or is *revoked*, whichever comes first; nothing makes it live again.
 * Rotating a live key makes its successor and lets it expire when the overlap is over, so that a pair is live meanwhile;
 * a key that has a successor which is not revoked cannot be rotated again.
 * - Tenants: `tenant` undefined stands for all of them; a key of another one is NOT_FOUND, like one that never was.
 * - Time: all of it is the database's, and goes in and out as durations.
 */
export interface KeyRecords {
  /**
   * With `unclaimed`, DENIED when there is or ever was a key of this principal in its tenant, unless the maker made one
   * himself; of two who want the same principal at once, one gets it.
   */
  add(key: NewKey, by: Identity, options?: { readonly unclaimed: boolean }): Promise<KeyView>
  /** Newest first, those that are over too. */
  list(query: PageQuery, tenant: string | undefined): Promise<Paged<KeyView>>
  get(id: string, tenant: string | undefined): Promise<KeyView>
  /** INPUT_INVALID for a key that is over or was rotated before; with `unclaimed`, DENIED as for `add`. */
  rotate(
    id: string,
    next: NewKey,
    overlapMs: number,
    by: Identity,
    options?: { readonly unclaimed: boolean },
  ): Promise<KeyView>
  /** A second time changes nothing. */
  revoke(id: string, tenant: string | undefined, by: Identity): Promise<KeyView>
  /** The calls of a principal that nobody works on: they wait for their turn, their time or a person. */
  pending(tenant: string, principal: string): Promise<readonly string[]>
  /** Of these ids the live ones. */
  find(ids: readonly string[]): Promise<readonly LiveKey[]>
  /** Notes that these were used about now. */
  used(ids: readonly string[]): Promise<void>
}

export const keyChannel = 'gantry_keys'
const usualPage = 50
const largestPage = 200

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
    async list({ limit = usualPage, cursor }, tenant) {
      const most = Math.min(Math.max(1, limit), largestPage)
      const { at, id } = readCursor(cursor)
      const rows = await reads(tenant).query<KeyRow>(listSql, [tenant ?? null, at, id, most + 1])
      const items = rows.slice(0, most).map(viewOf)
      const last = rows[most - 1]
      if (last === undefined || rows.length <= most) return { items }
      return { items, cursor: writeCursor({ at: last.place, id: last.id }) }
    },
    async rotate(id, next, overlapMs, by, { unclaimed } = { unclaimed: false }) {
      await database.transaction(async (queries) => {
        await claim(queries, next.identity, by, unclaimed)
        // Whoever rotates the same key at the same time waits here, and finds its successor with the next statement.
        await queries.query(lockSql, [id])
        const ended = await queries.query(endSql, [id, overlapMs])
        if (ended.length === 0) {
          throw new ToolError('INPUT_INVALID', 'The key is over, or was rotated before; rotate its successor.', {
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

/** Makes all who want a key of a principal take turns, and refuses those who may not have one. */
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

/** DENIED: somebody else could be meant by this principal. */
export function takenError(): ToolError {
  return new ToolError(
    'DENIED',
    'There is or was a key of this principal that somebody else made; choose another name, or ask one who holds *.',
  )
}

/** Who made a key, as it says: one of another tenant with that, since he may be called like somebody of this one. */
export function makerOf(by: Identity, tenant: string): string {
  return by.tenant === tenant ? by.principal : `${by.tenant}/${by.principal}`
}

function valuesOf({ id, name, identity, verifier, lifeMs }: NewKey, by: Identity): unknown[] {
  const { tenant, principal, permissions, roles = [], tools } = identity
  return [
    ...[id, tenant, principal, name, JSON.stringify(permissions), JSON.stringify(roles)],
    tools === undefined ? null : JSON.stringify(tools),
    'digest' in verifier ? verifier.digest : null,
    'publicKey' in verifier ? verifier.publicKey : null,
    makerOf(by, tenant),
    lifeMs,
  ]
}

/** What the new key may do is on the record; what lets it in is nowhere. */
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
    ...{ id, kind, name, tenant, principal },
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
    ...{ tenant, principal, permissions: JSON.parse(row.permissions), roles: JSON.parse(row.roles) },
    ...(row.tools === null ? {} : { tools: JSON.parse(row.tools) }),
  }
  return { id, identity, verifier: digest === null ? { publicKey: publicKey ?? '' } : { digest }, leftMs }
}

const columns = `
  id, tenant, principal, name, permissions, roles, tools, created_at, created_by, expires_at, revoked_at, last_used_at,
  replaces, case when digest is null then 'signing' else 'bearer' end as kind,
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'live' end as state,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place`

const live = 'revoked_at is null and expires_at > now()'
const later = (parameter: string): string => `now() + ${parameter}::float8 * interval '1 millisecond'`

const insertSql = `
  insert into api_keys
    (id, tenant, principal, name, permissions, roles, tools, digest, public_key, created_by, expires_at, replaces)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${later('$11')}, $12)`

/** Two that make keys of one principal at the same time take turns, so that the second finds the key of the first. */
const claimSql = `select pg_advisory_xact_lock(hashtextextended(json_build_array($1::text, $2::text)::text, 4))`

/** $3: who may have made such a key before; others may not. */
const takenSql = `
  select from api_keys where tenant = $1 and principal = $2
  having count(*) > 0 and count(*) filter (where created_by = $3 and replaces is null) = 0`

/** Calls that nobody works on. */
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

// Of many processes that saw a key in the same minute, one writes it.
const usedSql = `
  update api_keys set last_used_at = now()
  where id = any (${named}) and (last_used_at is null or last_used_at < now() - interval '1 minute')`
