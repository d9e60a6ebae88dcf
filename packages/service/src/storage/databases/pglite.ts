import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import type { Database } from './database.ts'
import { lockFolder } from './pglite/lock.ts'
import { PgliteStream } from './pglite/stream.ts'
import { keepTidy } from './pglite/tidy.ts'
import { createChannels, quoted } from './wire/channels.ts'
import { createConnections } from './wire/connections.ts'
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
