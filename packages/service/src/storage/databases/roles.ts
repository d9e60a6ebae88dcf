import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database } from './database.ts'

const roles = ['gantry_service', 'gantry_tenant'] as const

/**
 * Makes the roles that the service works as, and lets the login take them on; nothing is done when it can already.
 * - Concurrency: roles belong to the whole server, so databases that begin at the same time make the same ones. What one
 *   of them cannot do because another just did is not looked at; what counts is what is there in the end.
 * - Errors: CONFIG_INVALID with the SQL for an administrator when the login may not; otherwise the database's.
 */
export async function ensureRoles(database: Database): Promise<void> {
  const before = await readRoles(database)
  for (const sql of missing(before)) await database.query(sql).catch(unlessAway)
  const after = missing(await readRoles(database))
  if (after.length === 0) return
  const message = `The login ${before.login} may not take on the roles of the service. Have an administrator of the
    database run this once:`
  throw new ToolError('CONFIG_INVALID', `${message.replace(/\s+/g, ' ')} ${after.map((sql) => `${sql};`).join(' ')}`, {
    stage: 'define',
  })
}

interface Found {
  readonly login: string
  readonly made: readonly string[]
  /** Those that the login can take on. */
  readonly held: readonly string[]
}

async function readRoles(database: Database): Promise<Found> {
  const [row] = await database.query<{ login: string; made: string; held: string }>(readSql)
  if (row === undefined) throw new ToolError('INTERNAL', 'The database does not say who we are.')
  return { login: row.login, made: JSON.parse(row.made), held: JSON.parse(row.held) }
}

function missing({ login, made, held }: Found): string[] {
  const create = roles.filter((role) => !made.includes(role)).map((role) => `create role ${role} nologin`)
  const grant = roles.filter((role) => !held.includes(role))
  return grant.length === 0 ? create : [...create, `grant ${grant.join(', ')} to ${pg.escapeIdentifier(login)}`]
}

function unlessAway(error: unknown): void {
  if (ToolError.is(error) && error.code === 'INTERNAL') return
  throw error
}

// Since version 16 a member may be forbidden to take on the role; before, every member can.
const readSql = `
  select session_user as login, coalesce(json_agg(rolname), '[]')::text as made,
    coalesce(json_agg(rolname) filter (where pg_has_role(session_user, oid,
      case when current_setting('server_version_num')::integer >= 160000 then 'SET' else 'MEMBER' end)), '[]')::text as held
  from pg_roles where rolname in (${roles.map((role) => `'${role}'`).join(', ')})`
