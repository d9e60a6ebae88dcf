import { readFileSync } from 'node:fs'
import type { ConnectionOptions } from 'node:tls'
import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database } from './database.ts'
import { type Channels, createChannels, createConnections, quoted } from './wire/connections.ts'
import { closedError, connectError } from './wire/errors.ts'
import { createLine } from './wire/line.ts'
import { createNames, type Role, types, wireQueries } from './wire/queries.ts'

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

/** Whatever more the words ask for than to be silent, they get all of it: who the server is, is always checked. */
const checked = ['require', 'verify-ca', 'verify-full', 'true', '1']
const without = ['disable', 'false', '0']
const parameters = ['ssl', 'sslmode', 'sslrootcert', 'sslcert', 'sslkey', 'uselibpqcompat']

/**
 * Takes what an address says of TLS out of it: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`, or PGSSLMODE. The
 * certificate has to be of a trusted authority, and for the host that was asked for. Throws CONFIG_INVALID for a mode
 * that would take anybody for the server, and for files that cannot be read.
 */
export function takeTls(url: URL, environment: NodeJS.ProcessEnv = process.env): ConnectionOptions | false {
  const said = Object.fromEntries(parameters.map((name) => [name, url.searchParams.get(name) ?? undefined]))
  for (const name of parameters) url.searchParams.delete(name)
  const { sslrootcert, sslcert, sslkey } = said
  const files = [sslrootcert, sslcert, sslkey].some((file) => file !== undefined)
  const mode = said.sslmode ?? said.ssl ?? (files ? 'verify-full' : environment.PGSSLMODE || 'disable')
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
  const message = `The address of the database says sslmode=${mode.slice(0, 20)}, with which anybody could be taken for
    it. Write sslmode=verify-full, with sslrootcert=file for an authority of your own, or sslmode=disable.`
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
/** A connection that was cut without a word is found out by asking. */
const askEveryMs = 15_000

/**
 * Hears notifications over a connection of its own.
 *
 * It is *off* until somebody listens. Then a connection is *made*, on which every channel is named; if that fails while
 * nobody else listens, it is off again and the listener is told. When an *open* connection ends, or making it again
 * fails, the next is made after a pause that grows, for as long as somebody listens; once it is open everybody hears
 * `undefined`, because what was said in between is lost.
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
    connected().then(() => channels.tellAll(), retryLater)
  }
  return {
    async listen(channel, hear) {
      if (closed) throw closedError()
      const entry = (payload: string | undefined): void => hear(payload)
      channels.add(channel, entry)
      try {
        await (await connected()).say(`listen ${quoted(channel)}`)
      } catch (error) {
        channels.remove(channel, entry)
        throw connectError(error)
      }
      return async () => {
        if (channels.remove(channel, entry)) await connection?.say(`unlisten ${quoted(channel)}`).catch(() => {})
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
  /** Rejects when it cannot be made. */
  readonly ready: Promise<void>
  /** Resolves when it is gone, also when it was never made. */
  readonly ended: Promise<void>
  /** One statement after another. */
  say(sql: string): Promise<void>
  end(): void
}

function connect(client: pg.Client, channels: Channels): Connection {
  const ended = new Promise<void>((resolve) => client.once('end', resolve))
  const end = (): void => void client.connection.stream.destroy()
  let last = Promise.resolve()
  const say = (sql: string): Promise<void> => {
    const said = last.then(async () => void (await client.query(sql)))
    last = said.catch(() => {})
    return said
  }
  const make = async (): Promise<void> => {
    await client.connect()
    for (const channel of channels.names()) await say(`listen ${quoted(channel)}`)
  }
  client.on('error', () => {})
  client.on('notification', ({ channel, payload }) => channels.tell(channel, payload ?? ''))
  const ready = make()
  ready.catch(end)
  const asking = setInterval(() => void say('select 1').catch(end), askEveryMs).unref()
  void ended.then(() => clearInterval(asking))
  return { ready, ended, say, end }
}
