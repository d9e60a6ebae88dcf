import { createHash } from 'node:crypto'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database, Queries } from './database.ts'
import { PgliteStream } from './pglite/stream.ts'
import { createChannels, createConnections, quoted } from './wire/connections.ts'
import { type Role, types, wireQueries } from './wire/queries.ts'

export interface PgliteOptions {
  /** Made when it is not there, for its owner alone. The database is in `db` within. */
  readonly folder: string
  /** A statement that takes longer is given up, and its thread with it; the next starts a new one. 30 seconds when absent. */
  readonly statementMs?: number
}

/** The first start makes the database, which takes seconds. */
const startMs = 120_000
/** Who waits does so behind statements of others, or behind the start of a new thread. */
const waitMs = 30_000

/**
 * An embedded database in a folder, in a thread of its own, so that neither waits for the other.
 * It has one connection: statements are done one at a time, and during a transaction nothing else is.
 * Rejects with SERVICE_UNAVAILABLE when somebody has the folder open.
 */
export async function openPglite({ folder, statementMs = 30_000 }: PgliteOptions): Promise<Database> {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const unlock = await lockFolder(folder)
  const channels = createChannels()
  let starts = 0
  const connections = createConnections({
    open: () =>
      new pg.Client({
        stream: () => new PgliteStream(join(folder, 'db')),
        user: 'postgres',
        password: 'none',
        database: 'postgres',
        host: 'localhost',
        ssl: false,
        connectionTimeoutMillis: startMs,
        query_timeout: statementMs,
        types,
      }),
    async prepare(client) {
      client.on('notification', ({ channel, payload }) => channels.tell(channel, payload ?? ''))
      for (const channel of channels.names()) await client.query(`listen ${quoted(channel)}`)
      starts += 1
      if (starts > 1) channels.tellAll()
    },
    most: 1,
    waitMs,
  })
  const queriesAs = wireQueries(connections)
  const queries = queriesAs('none')
  const stopTidying = keepTidy(queries)
  let closing: Promise<void> | undefined
  const close = (): Promise<void> => {
    stopTidying()
    closing ??= connections.close().finally(unlock)
    return closing
  }
  await queries.query('select 1').catch(async (error: unknown) => {
    await close()
    throw error
  })
  const listen: Database['listen'] = async (channel, hear) => {
    const entry = (payload: string | undefined): void => hear(payload)
    channels.add(channel, entry)
    try {
      await queries.query(`listen ${quoted(channel)}`)
    } catch (error) {
      channels.remove(channel, entry)
      throw error
    }
    return async () => {
      if (channels.remove(channel, entry)) await queries.query(`unlisten ${quoted(channel)}`).catch(() => {})
    }
  }
  const as = (role: Role): Database => ({
    ...{ kind: 'pglite', exclusive: true, listen, close },
    ...queriesAs(role),
    load: connections.load,
    asService: () => as('gantry_service'),
  })
  return as('none')
}

/**
 * Holds a folder for this process alone until the function it answers is called, or until the process is gone, however
 * it went. Two locks of the system's hold it. One is on a file, had through SQLite because Node itself has none: it is
 * seen by whoever shares the folder, but it is gone when anything in this process opens and closes that file. The other
 * is a name that nobody can take away, but only processes of the same machine and network see it, and only on Linux.
 * Rejects with SERVICE_UNAVAILABLE, naming the holder, when somebody has it, this process included.
 */
export async function lockFolder(folder: string): Promise<() => void> {
  const holder = join(folder, 'lock.pid')
  const unname = await takeName(folder).catch((error: unknown) => {
    throw inUse(folder, holder, error)
  })
  const lock = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
  try {
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    unname()
    throw inUse(folder, holder, error)
  }
  writeFileSync(holder, `${process.pid} on ${hostname()}`, { mode: 0o600 })
  return () => {
    rmSync(holder, { force: true })
    lock.close()
    unname()
  }
}

/** An abstract socket, named by what the folder is rather than what it is called; nobody is served on it. */
function takeName(folder: string): Promise<() => void> {
  if (process.platform !== 'linux') return Promise.resolve(() => undefined)
  const { dev, ino } = statSync(folder, { bigint: true })
  const name = createHash('sha256').update(`${dev} ${ino}`).digest('hex').slice(0, 32)
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(`\0gantry-${name}`, () => {
      server.unref()
      resolve(() => server.close())
    })
  })
}

function inUse(folder: string, holder: string, cause: unknown): ToolError {
  const message = `${folder} is in use by process ${readHolder(holder)}. Stop that one first, or choose another folder.`
  return new ToolError('SERVICE_UNAVAILABLE', message, { cause, stage: 'define' })
}

function readHolder(file: string): string {
  try {
    return readFileSync(file, 'utf8').slice(0, 100)
  } catch {
    return 'unknown'
  }
}

/** How often to look; looking is one short statement. */
const everyMs = 5_000

/** Tables with many dead rows, and those with rows so old that their transaction numbers would soon be used again. */
const overdue = `
  select c.oid::regclass::text as name
  from pg_class c left join pg_stat_all_tables s on s.relid = c.oid
  where c.relkind in ('r', 'm')
    and (s.n_dead_tup > 1000 + 0.02 * s.n_live_tup or age(c.relfrozenxid) > 160000000)`

/** Whether the log has grown so much that replaying it after a crash would take long. */
const longLog = `
  select 1 from pg_control_checkpoint()
  where pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn) > 48 * 1024 * 1024`

/**
 * Clears away dead rows and writes checkpoints from time to time, as the background processes of a server do, which an
 * embedded engine does not have: without them its files would grow for ever.
 * Answers the function that ends it. What fails is tried again the next time.
 */
export function keepTidy(queries: Queries): () => void {
  let busy = false
  const tidy = async (): Promise<void> => {
    const tables = await queries.query<{ name: string }>(overdue)
    for (const { name } of tables) await queries.query(`vacuum (analyze) ${name}`)
    if ((await queries.query(longLog)).length > 0) await queries.query('checkpoint')
  }
  const timer = setInterval(() => {
    if (busy) return
    busy = true
    tidy()
      .catch(() => {})
      .finally(() => {
        busy = false
      })
  }, everyMs)
  timer.unref()
  return () => clearInterval(timer)
}
