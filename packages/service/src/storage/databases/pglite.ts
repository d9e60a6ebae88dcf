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
import { createChannels, createConnections, quoted, type Role, types, wireQueries } from './wire/connections.ts'

export interface PgliteOptions {
  /** Created with mode 0700 when missing. The database is in its folder `db`. */
  readonly folder: string
  /** A statement that takes longer is aborted with its thread; the next one starts a new thread. 30 s when absent. */
  readonly statementMs?: number
}

/** Limit of the start; the first one creates the database, which takes seconds. */
const startMs = 120_000
/** How long a statement may wait for others, or for the start of a new thread. */
const waitMs = 30_000

/**
 * Opens an embedded database in a folder, in a worker thread, so that it does not block the event loop.
 * It has one connection: statements run one at a time, and a transaction blocks all others.
 * Rejects with SERVICE_UNAVAILABLE when the folder is open elsewhere.
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
      channels.follow(client)
      for (const channel of channels.names()) await client.query(`listen ${quoted(channel)}`)
      starts += 1
      if (starts > 1) channels.notifyAll()
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
  const listen: Database['listen'] = (channel, listener) =>
    channels.listen(channel, listener, {
      listen: (name) => queries.query(`listen ${name}`),
      unlisten: (name) => queries.query(`unlisten ${name}`),
    })
  const as = (role: Role): Database => ({
    kind: 'pglite',
    exclusive: true,
    ...queriesAs(role),
    listen,
    close,
    load: connections.load,
    asService: () => as('gantry_service'),
  })
  return as('none')
}

/**
 * Holds a folder for this process alone until the function it answers is called, or until the process has ended, however
 * it ended. Two locks of the operating system hold it. One is on a file, taken through SQLite because Node has none:
 * every process that shares the folder sees it, but it is lost when anything in this process opens and closes that
 * file. The other is a socket name that cannot be taken away, but only processes of the same machine and network
 * namespace see it, and only on Linux. Rejects with SERVICE_UNAVAILABLE, naming the holder, when it is locked, also by
 * this process.
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

/** An abstract socket, named by the folder's inode rather than its path; it serves no connection. */
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

/** Interval of the check, which is one short statement. */
const everyMs = 5_000

/** Tables with many dead rows, or close to transaction id wraparound. */
const overdue = `
  select c.oid::regclass::text as name
  from pg_class c left join pg_stat_all_tables s on s.relid = c.oid
  where c.relkind in ('r', 'm')
    and (s.n_dead_tup > 1000 + 0.02 * s.n_live_tup or age(c.relfrozenxid) > 160000000)`

/** Whether the write-ahead log is so long that crash recovery would be slow. */
const longLog = `
  select 1 from pg_control_checkpoint()
  where pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn) > 48 * 1024 * 1024`

/**
 * Vacuums tables and writes checkpoints periodically, as the background processes of a server do, which the embedded
 * engine lacks: without them its files would grow without bound.
 * Returns the function that stops it. A failure is retried at the next interval.
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
