const columns = `
  id, tenant, principal, name, permissions, roles, tools, created_at, created_by, expires_at, revoked_at, last_used_at,
  replaces, case when digest is null then 'signing' else 'bearer' end as kind,
  case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired' else 'live' end as state,
  to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as place`

const live = 'revoked_at is null and expires_at > now()'
const later = (parameter: string): string => `now() + ${parameter}::float8 * interval '1 millisecond'`

export const insertSql = `
  insert into api_keys
    (id, tenant, principal, name, permissions, roles, tools, digest, public_key, created_by, expires_at, replaces)
  values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, ${later('$11')}, $12)`

/** Two that make keys of one principal at the same time take turns, so that the second finds the key of the first. */
export const claimSql = `select pg_advisory_xact_lock(hashtextextended(json_build_array($1::text, $2::text)::text, 4))`

/** $3: who may have made such a key before; others may not. */
export const takenSql = `
  select from api_keys where tenant = $1 and principal = $2
  having count(*) > 0 and count(*) filter (where created_by = $3 and replaces is null) = 0`

/** Calls that nobody works on. */
export const pendingSql = `
  select c.call_id from queue q join calls c on c.call_id = q.call_id
  where c.tenant = $1 and c.principal = $2 and q.lease_until is null`

export const getSql = `select ${columns} from api_keys where id = $1 and ($2::text is null or tenant = $2)`

export const listSql = `
  select ${columns} from api_keys
  where ($1::text is null or tenant = $1) and (created_at, id) < ($2::timestamptz, $3::text)
  order by created_at desc, id desc
  limit $4`

export const lockSql = 'select from api_keys where id = $1 for update'

export const endSql = `
  update api_keys k set expires_at = least(expires_at, ${later('$2')})
  where id = $1 and ${live}
    and not exists (select from api_keys n where n.replaces = k.id and n.revoked_at is null)
  returning id`

export const revokeSql = 'update api_keys set revoked_at = now() where id = $1 and revoked_at is null returning id'

export const notifySql = `select pg_notify('gantry_keys', $1)`

const named = 'array(select json_array_elements_text($1::json))'

export const findSql = `
  select id, tenant, principal, permissions, roles, tools, digest, public_key,
    extract(epoch from expires_at - now())::float8 * 1000 as left_ms
  from api_keys where id = any (${named}) and ${live}`

// Of many processes that saw a key in the same minute, one writes it.
export const usedSql = `
  update api_keys set last_used_at = now()
  where id = any (${named}) and (last_used_at is null or last_used_at < now() - interval '1 minute')`
