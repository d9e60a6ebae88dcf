import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database } from './database.ts'
import {
  type Channels,
  createChannels,
  createConnections,
  createNames,
  quoted,
  type Role,
  types,
  wireQueries,
} from './wire/connections.ts'
import { closedError, connectError } from './wire/errors.ts'
import { createLine } from './wire/line.ts'

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database`; `sslmode=verify-full`, `sslrootcert` and others as parameters. */
  readonly url: string
  /** Size of the pool; 10 when absent. The listener and the pipelined line use one more connection each. */
  readonly connections?: number
  /** How long to wait for a new or a free connection; 5 seconds when absent. */
  readonly connectMs?: number
  /** Limit of a statement, and of an idle transaction; 30 seconds when absent, 0 for no limit. */
  readonly statementMs?: number
}

/** Extra time for the network, beyond the server's own limit, before the connection counts as lost. */
const silenceMs = 5_000
const idleMs = 30_000
/** The line is closed after this time without an answer; its statements are short and can use the pool instead. */
const lineMs = 10_000

/**
 * Opens a PostgreSQL server by its URL. Statements with parameters are prepared once per connection.
 * Rejects with CONFIG_INVALID for an invalid URL or TLS mode, and with STORE_UNAVAILABLE when the server is
 * unreachable.
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
    kind: 'postgres',
    exclusive: false,
    ...queriesAs(role),
    listen: listener.listen,
    close,
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

/** Sets the schema with the connection, which costs no statement. */
function addressOf(url: string): Pick<pg.ClientConfig, 'connectionString' | 'ssl'> {
  const parsed = URL.parse(url)
  if (parsed === null || !/^postgres(?:ql)?:$/.test(parsed.protocol)) {
    throw new ToolError('CONFIG_INVALID', 'The URL of the database must be of the form postgres://host/database.')
  }
  // A prepared statement keeps its plan, and one made on an empty table would scan it when it is full. Statements are
  // planned once, because planning takes longer than running most of them. A scan that cannot be avoided is estimated as so
  // expensive that the server would compile the statement at each run, which takes a hundred times as long as running it.
  const own = '-c search_path=gantry -c enable_seqscan=off -c plan_cache_mode=force_generic_plan -c jit=off'
  const options = [parsed.searchParams.get('options'), own].filter(Boolean).join(' ')
  parsed.searchParams.set('options', options)
  const ssl = takeTls(parsed)
  return { connectionString: parsed.href, ssl }
}

/** Every mode with TLS verifies the certificate and the host, as verify-full does. */
const checked = ['require', 'verify-ca', 'verify-full', 'true', '1']
const without = ['disable', 'false', '0']
const parameters = ['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'uselibpqcompat']

/**
 * Takes what an address says of TLS out of it: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, or PGSSLMODE. The
 * certificate has to be of a trusted authority, and for the requested host. Throws CONFIG_INVALID for a mode
 * that does not verify the server, and for files that cannot be read.
 */
export function takeTls(url: URL, environment: NodeJS.ProcessEnv = process.env): ConnectionOptions | false {
  const options = Object.fromEntries(parameters.map((name) => [name, url.searchParams.get(name) ?? undefined]))
  for (const name of parameters) url.searchParams.delete(name)
  const { sslrootcert, sslcert, sslkey } = options
  const files = [sslrootcert, sslcert, sslkey].some((file) => file !== undefined)
  const mode = options.sslmode ?? options.ssl ?? (files ? 'verify-full' : environment.PGSSLMODE || 'disable')
  if (without.includes(mode) && !files) return false
  if (!checked.includes(mode)) throw refused(mode)
  return {
    minVersion: 'TLSv1.2',
    ...(sslrootcert === undefined || sslrootcert === 'system' ? {} : { ca: read(sslrootcert, 'sslrootcert') }),
    ...(sslcert === undefined ? {} : { cert: read(sslcert, 'sslcert') }),
    ...(sslkey === undefined ? {} : { key: read(sslkey, 'sslkey') }),
  }
}

function refused(mode: string): ToolError {
  const message = `The address of the database says sslmode=${mode.slice(0, 20)}, which does not verify the server.
    Write sslmode=verify-full, with sslrootcert=file for an authority of your own, or sslmode=disable.`
  return new ToolError('CONFIG_INVALID', message.replace(/\s+/g, ' '))
}

function read(file: string, name: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw new ToolError(
      'CONFIG_INVALID',
      `The file that the address of the database names as ${name} cannot be read.`,
      {
        cause,
      },
    )
  }
}

export interface Listener {
  readonly listen: Database['listen']
  close(): Promise<void>
}

const firstPauseMs = 100
const longestPauseMs = 10_000
/** Interval of the probe that detects a silently dropped connection. */
const probeEveryMs = 15_000

/**
 * Receives notifications over a connection of its own.
 *
 * States: `off` (at first), `connecting`, `open`, `waiting`, `closed`
 *
 * - `off` → `connecting`: a listener is added. The connection listens on every channel that has one.
 * - `connecting` → `open`: it is connected. After a reconnection every listener is called with `undefined`, because
 *   notifications in between are lost.
 * - `connecting` → `off`: connecting failed for the only listener, whose `listen` rejects.
 * - `connecting` or `open` → `waiting`: connecting failed, or the connection ended, while there are listeners.
 * - `waiting` → `connecting`: after a pause that doubles with each failure.
 * - any → `closed`: `close`.
 */
export function createListener(open: () => pg.Client): Listener {
  const channels = createChannels()
  let connection: Connection | undefined
  let retry: NodeJS.Timeout | undefined
  let failures = 0
  let closed = false

  const connected = async (): Promise<Connection> => {
    connection ??= watched(connect(open(), channels))
    const current = connection
    await current.ready
    failures = 0
    return current
  }
  const watched = (made: Connection): Connection => {
    void made.ended.then(() => {
      connection = undefined
      retryLater()
    })
    return made
  }
  const retryLater = (): void => {
    if (closed || retry !== undefined || channels.names().length === 0) return
    const pauseMs = Math.min(firstPauseMs * 2 ** failures, longestPauseMs)
    failures += 1
    retry = setTimeout(again, pauseMs * (0.5 + Math.random() / 2))
  }
  const again = (): void => {
    retry = undefined
    connected().then(() => channels.notifyAll(), retryLater)
  }
  return {
    async listen(channel, listener) {
      if (closed) throw closedError()
      try {
        return await channels.listen(channel, listener, {
          listen: async (name) => (await connected()).run(`listen ${name}`),
          unlisten: (name) => connection?.run(`unlisten ${name}`),
        })
      } catch (error) {
        throw connectError(error)
      }
    },
    async close() {
      closed = true
      clearTimeout(retry)
      const current = connection
      current?.end()
      await current?.ended
    },
  }
}

interface Connection {
  /** Rejects when connecting fails. */
  readonly ready: Promise<void>
  /** Resolves when the connection has ended, also when connecting failed. */
  readonly ended: Promise<void>
  /** Runs one statement after another. */
  run(sql: string): Promise<void>
  end(): void
}

function connect(client: pg.Client, channels: Channels): Connection {
  const ended = new Promise<void>((resolve) => client.once('end', resolve))
  const end = (): void => void client.connection.stream.destroy()
  let last = Promise.resolve()
  const run = (sql: string): Promise<void> => {
    const done = last.then(async () => void (await client.query(sql)))
    last = done.catch(() => {})
    return done
  }
  const make = async (): Promise<void> => {
    await client.connect()
    for (const channel of channels.names()) await run(`listen ${quoted(channel)}`)
  }
  client.on('error', () => {})
  channels.follow(client)
  const ready = make()
  ready.catch(end)
  const probing = setInterval(() => void run('select 1').catch(end), probeEveryMs).unref()
  void ended.then(() => clearInterval(probing))
  return { ready, ended, run, end }
}
