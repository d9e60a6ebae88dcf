import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database } from './database.ts'
import { createListener } from './postgres/listener.ts'
import { takeTls } from './postgres/tls.ts'
import { createConnections } from './wire/connections.ts'
import { createLine } from './wire/line.ts'
import { createNames } from './wire/names.ts'
import { type Role, types, wireQueries } from './wire/queries.ts'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`; `sslmode=verify-full`, `sslrootcert` and others as parameters. */
  readonly url: string
  /** Statements at once; 10 when absent. Hearing notifications takes one more, and so does the line. */
  readonly connections?: number
  /** How long to wait for a connection, be it a new one or a free one; 5 seconds when absent. */
  readonly connectMs?: number
  /** How long a statement may take, and a transaction may stand still; 30 seconds when absent, 0 is without limit. */
  readonly statementMs?: number
}

/** What the network may take on top of the server's own limit before the server counts as silent. */
const silenceMs = 5_000
const idleMs = 30_000
/** What goes over the line is short, and there is another way: when it is silent for so long it is given up. */
const lineMs = 10_000

/**
 * A real PostgreSQL, by its URL. Statements with parameters are prepared once on each connection.
 * Rejects with CONFIG_INVALID for what is not a URL, or does not say whom to trust, and with STORE_UNAVAILABLE when the server cannot be reached now.
 */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  const { connectMs = 5_000, statementMs = 30_000 } = options
  const settings: pg.ClientConfig = {
    ...addressOf(options.url),
    application_name: 'gantry',
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    types,
  }
  const limits = {
    statement_timeout: statementMs,
    idle_in_transaction_session_timeout: statementMs,
    query_timeout: statementMs + silenceMs,
  }
  const limited = { ...settings, ...(statementMs === 0 ? {} : limits) }
  const connections = createConnections({
    open: () => new pg.Client(limited),
    most: options.connections ?? 10,
    waitMs: connectMs,
    idleMs,
  })
  const listener = createListener(() => new pg.Client({ ...settings, query_timeout: silenceMs }))
  const nameOf = createNames('gantry')
  const lineSettings = {
    application_name: 'gantry line',
    query_timeout: statementMs === 0 ? lineMs : Math.min(lineMs, limits.query_timeout),
  }
  const line = createLine({
    open: () => new pg.Client({ ...limited, ...lineSettings, pipeline: true }),
    prepare: (client) => client.query('set role gantry_service'),
    nameOf,
  })
  const close = async (): Promise<void> => {
    await Promise.all([connections.close(), listener.close(), line.close()])
  }
  const queriesAs = wireQueries(connections, nameOf)
  const as = (role: Role): Database => ({
    ...{ kind: 'postgres', exclusive: false, listen: listener.listen, close },
    ...queriesAs(role),
    ...(role === 'gantry_service' ? { line } : {}),
    load: connections.load,
    asService: () => as('gantry_service'),
  })
  const database = as('none')
  await database.query('select 1').catch(async (error: unknown) => {
    await close()
    throw error
  })
  return database
}

/** Our schema is named when the connection is made, which costs no statement. */
function addressOf(url: string): Pick<pg.ClientConfig, 'connectionString' | 'ssl'> {
  const parsed = URL.parse(url)
  if (parsed === null || !/^postgres(?:ql)?:$/.test(parsed.protocol)) {
    throw new ToolError('CONFIG_INVALID', 'The address of the database is not of the form postgres://host/database.')
  }
  // A prepared statement keeps its plan: one made while a table was empty would read all of it when it is full. It is
  // planned once, because planning takes longer than most of our statements.
  const own = '-c search_path=gantry -c enable_seqscan=off -c plan_cache_mode=force_generic_plan'
  const options = [parsed.searchParams.get('options'), own].filter(Boolean).join(' ')
  parsed.searchParams.set('options', options)
  const ssl = takeTls(parsed)
  return { connectionString: parsed.href, ssl }
}
