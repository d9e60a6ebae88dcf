import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database, Queries, Row } from '../database.ts'
import type { Connections } from './connections.ts'
import { isBroken, type Outcome, statementError } from './errors.ts'

/** With whose rights a statement is done: the login's own, or those of a role that the login may take on. */
export type Role = 'none' | 'gantry_service'

type WireQueries = Pick<Database, 'query' | 'transaction' | 'asTenant'>

/**
 * Statements and transactions over connections that speak PostgreSQL's protocol, for each role. A connection keeps the
 * role that it was last used with, so that taking one on costs a statement once.
 */
export function wireQueries(
  connections: Connections,
  nameOf: NameOf = createNames('gantry'),
): (role: Role) => WireQueries {
  const nameForTenant = createNames('gantry_tenant')
  const roles = new WeakMap<pg.Client, Role>()
  const takeAs = async (role: Role): Promise<pg.Client> => {
    const client = await connections.take()
    if ((roles.get(client) ?? 'none') === role) return client
    try {
      await client.query(`set role ${role}`)
    } catch (error) {
      connections.give(client, isBroken(error))
      throw statementError(error, 'none')
    }
    roles.set(client, role)
    return client
  }
  const asTenant = createTenantReads(connections, nameForTenant)
  return (role) => ({ ...queriesOf(connections, () => takeAs(role), nameOf), asTenant })
}

/**
 * The role and the tenant hold until the end of the transaction, so that no connection is ever left with them. Plans
 * depend on the role: a statement has another name here than where it is done for the service.
 */
function createTenantReads(connections: Connections, nameOf: NameOf): Database['asTenant'] {
  return (tenant) => ({
    async query<R extends Row>(sql: string, parameters?: readonly unknown[]) {
      const client = await connections.take()
      const end = (command: string): void =>
        void client.query(command).then(
          () => connections.give(client, false),
          () => connections.give(client, true),
        )
      try {
        await client.query(asTenantSql(tenant))
        const { rows } = await send(client, nameOf, sql, parameters)
        // Nobody need wait for the end of a transaction that wrote nothing.
        end('commit')
        return rows as R[]
      } catch (error) {
        if (isBroken(error)) connections.give(client, true)
        else end('rollback')
        throw statementError(error, 'none')
      }
    },
  })
}

/** What cannot be in a text of the database is the name of nobody, like an empty one, which sees nothing. */
function asTenantSql(tenant: string): string {
  const name = pg.escapeLiteral(tenant.includes('\0') ? '' : tenant)
  return `begin read only; set local role gantry_tenant; set local gantry.tenant = ${name}`
}

function queriesOf(
  connections: Connections,
  take: () => Promise<pg.Client>,
  nameOf: NameOf,
): Pick<Database, 'query' | 'transaction'> {
  return {
    async query<R extends Row>(sql: string, parameters?: readonly unknown[]) {
      const client = await take()
      try {
        const { rows } = await send(client, nameOf, sql, parameters)
        connections.give(client, false)
        return rows as R[]
      } catch (error) {
        connections.give(client, isBroken(error))
        throw statementError(error, 'unknown')
      }
    },
    async transaction(work) {
      const client = await take()
      const state = { ended: false, broken: false }
      const step = async (lost: Outcome, sql: string, parameters?: readonly unknown[]): Promise<pg.QueryResult> => {
        if (state.ended) throw new ToolError('INTERNAL', 'The transaction has ended.')
        try {
          return await send(client, nameOf, sql, parameters)
        } catch (error) {
          state.broken ||= isBroken(error)
          throw statementError(error, lost)
        }
      }
      const query: Queries['query'] = async <R extends Row>(sql: string, parameters?: readonly unknown[]) =>
        (await step('none', sql, parameters)).rows as R[]
      try {
        await step('none', 'begin')
        const value = await work({ query })
        const { command } = await step('unknown', 'commit')
        if (command !== 'COMMIT') throw new ToolError('INTERNAL', 'A transaction went on after a statement had failed.')
        return value
      } catch (error) {
        if (!state.broken) await step('none', 'rollback').catch(() => {})
        throw error
      } finally {
        state.ended = true
        connections.give(client, state.broken)
      }
    },
  }
}

const int8 = 20

/** As the driver reads values, but 64-bit numbers are numbers: ids and counts stay below 2⁵³. */
export const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => (oid === int8 && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format)),
}

/** Sends a statement by the time it returns its promise. */
export async function send(
  client: pg.Client,
  nameOf: NameOf,
  sql: string,
  parameters: readonly unknown[] = [],
): Promise<pg.QueryResult> {
  if (parameters.length === 0) return last(await client.query(sql))
  const name = nameOf(sql)
  return await client.query({ text: sql, values: [...parameters], ...(name === undefined ? {} : { name }) })
}

/** Without parameters a text may hold several statements; the rows are those of the last. */
function last(result: pg.QueryResult | pg.QueryResult[]): pg.QueryResult {
  return Array.isArray(result) ? (result.at(-1) as pg.QueryResult) : result
}

/** The name under which connections keep a prepared statement; undefined when it is not kept. One text has one name. */
export type NameOf = (sql: string) => string | undefined

/** Hot statements are few and always the same text; this many are prepared on each connection. */
const mostPrepared = 200

export function createNames(start: string): NameOf {
  const names = new Map<string, string>()
  return (sql) => {
    const known = names.get(sql)
    if (known !== undefined || names.size >= mostPrepared) return known
    const name = `${start}_${names.size}`
    names.set(sql, name)
    return name
  }
}
