import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database, Queries, Row } from '../database.ts'
import type { Connections } from './connections.ts'
import { isBroken, type Outcome, statementError } from './errors.ts'

/** Hot statements are few and always the same text; this many are prepared on each connection. */
const mostPrepared = 200

/** Statements and transactions over connections that speak PostgreSQL's protocol. */
export function wireQueries(connections: Connections): Pick<Database, 'query' | 'transaction'> {
  const nameOf = createNames()
  const send = async (client: pg.Client, sql: string, parameters: readonly unknown[] = []): Promise<pg.QueryResult> => {
    if (parameters.length === 0) return last(await client.query(sql))
    const name = nameOf(sql)
    return await client.query({ text: sql, values: [...parameters], ...(name === undefined ? {} : { name }) })
  }
  return {
    async query<R extends Row>(sql: string, parameters?: readonly unknown[]) {
      const client = await connections.take()
      try {
        const { rows } = await send(client, sql, parameters)
        connections.give(client, false)
        return rows as R[]
      } catch (error) {
        connections.give(client, isBroken(error))
        throw statementError(error, 'unknown')
      }
    },
    async transaction(work) {
      const client = await connections.take()
      const state = { ended: false, broken: false }
      const step = async (lost: Outcome, sql: string, parameters?: readonly unknown[]): Promise<pg.QueryResult> => {
        if (state.ended) throw new ToolError('INTERNAL', 'The transaction has ended.')
        try {
          return await send(client, sql, parameters)
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

/** Without parameters a text may hold several statements; the rows are those of the last. */
function last(result: pg.QueryResult | pg.QueryResult[]): pg.QueryResult {
  return Array.isArray(result) ? (result.at(-1) as pg.QueryResult) : result
}

/** Names under which connections keep prepared statements; one text has one name. */
function createNames(): (sql: string) => string | undefined {
  const names = new Map<string, string>()
  return (sql) => {
    const known = names.get(sql)
    if (known !== undefined || names.size >= mostPrepared) return known
    const name = `gantry_${names.size}`
    names.set(sql, name)
    return name
  }
}

const int8 = 20

/** As the driver reads values, but 64-bit numbers are numbers: ids and counts stay below 2⁵³. */
export const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => (oid === int8 && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format)),
}
