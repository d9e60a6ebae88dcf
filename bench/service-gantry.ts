import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { admit } from '../packages/service/src/admission/admit.ts'
import type { LoadedConfig } from '../packages/service/src/config/config.ts'
import { defaultSettings, type Role, type ServiceSettings } from '../packages/service/src/config/service-settings.ts'
import { createSnapshot } from '../packages/service/src/config/snapshots.ts'
import { createBus } from '../packages/service/src/observe/bus.ts'
import { type RunningService, startService } from '../packages/service/src/serve/start.ts'
import { createCallIds } from '../packages/service/src/storage/calls/call-facts.ts'
import { sqlCallStore } from '../packages/service/src/storage/calls/sql.ts'
import { connectStorage, type OpenedStorage } from '../packages/service/src/storage/connect-storage.ts'
import type { Database, Row } from '../packages/service/src/storage/databases/database.ts'
import type { Backlog, Caller } from './queue-peers.ts'

const identity = { principal: 'bench', tenant: 'bench', permissions: ['*'] }
const never = new AbortController().signal

export interface GantryOptions {
  /** A real database; without it the embedded one. */
  readonly url?: string | undefined
  readonly slots: number
  /** `unsealed` leaves the seals out, `unaudited` the rows too. */
  readonly audit?: string
}

/** The parts of a service as `gantry serve` wires them, without the HTTP server. */
async function open({ url, slots, audit = 'sealed' }: GantryOptions, roles: readonly Role[]) {
  const data = mkdtempSync(join(tmpdir(), 'gantry-bench-'))
  const remove = (): void => rmSync(data, { recursive: true, force: true })
  // Remove the data on a signal as well.
  process.once('exit', remove)
  const database = url === undefined ? {} : { databaseUrl: url }
  const settings: ServiceSettings = { ...defaultSettings, ...database, data, roles, slots, logLevel: 'silent' }
  const loaded: LoadedConfig = {
    file: undefined,
    options: {},
    service: settings,
    builtins: true,
    demo: true,
    warnings: [],
  }
  const storage = await connectStorage(settings, () => {})
  const bus = createBus()
  return {
    storage,
    bus,
    loaded,
    start: (): Promise<RunningService> =>
      startService({
        settings,
        bus,
        database: withAudit(storage.database, audit),
        files: storage.files,
        snapshot: async (additions) => createSnapshot(loaded, additions, bus),
        callbackKey: async () => undefined,
      }),
    async close(): Promise<void> {
      await storage.database.close()
      remove()
    },
  }
}

/** A database that omits parts of the audit log from the statements. */
function withAudit(database: Database, audit: string): Database {
  if (audit === 'sealed') return database
  const leaveOut = createLeaveOut(audit === 'unaudited')
  return {
    ...database,
    query: <R extends Row>(sql: string, parameters?: readonly unknown[]) =>
      sql.includes('pg_locks')
        ? Promise.resolve([{ upto: null, sealed: null, writers: '[]' }] as never)
        : database.query<R>(leaveOut(sql), parameters),
  }
}

/** Reduces an insert into the audit log to its unused select, which the database skips. */
function createLeaveOut(rows: boolean): (sql: string) => string {
  const known = new Map<string, string>()
  return (sql) => {
    if (!rows) return sql
    const made = known.get(sql) ?? sql.replaceAll(/insert into audit \([^)]*\)\s+select/g, 'select')
    known.set(sql, made)
    return made
  }
}

/** Calls submitted before a worker starts. */
export async function gantryBacklog(options: GantryOptions): Promise<Backlog> {
  const { storage, bus, loaded, start, close } = await open(options, ['worker'])
  return {
    add: await adder(storage, loaded),
    async drain(count, done) {
      const { promise: finished, resolve, reject } = Promise.withResolvers<void>()
      let ended = 0
      const unhear = bus.on('call:finished', ({ status }) => {
        if (status !== 'ok') reject(new Error(`a call ended as ${status}`))
        ended += 1
        done(ended)
        if (ended === count) resolve()
      })
      const running = await start()
      await finished.finally(unhear).finally(() => running.stop(10_000))
    },
    close,
  }
}

const perStatement = 1_000

/** Submits calls as the API does, but many at a time. */
async function adder({ database }: OpenedStorage, loaded: LoadedConfig): Promise<(count: number) => Promise<void>> {
  const { executor } = createSnapshot(loaded, { audit: { write: () => undefined }, tools: [] }, createBus())
  const store = sqlCallStore(database)
  const keep = async (payload: string) => ({ payload, payloadBytes: Buffer.byteLength(payload) })
  const options = { executor, newId: createCallIds(), now: Date.now, keep }
  return async (count) => {
    for (let from = 0; from < count; from += perStatement) {
      const those = Array.from({ length: Math.min(perStatement, count - from) }, (_, n) =>
        admit({ kind: 'call', tool: 'demo:add', args: { a: from + n, b: 1 } }, identity, options),
      )
      await store.submit(await Promise.all(those))
    }
  }
}

/** A service in all its roles, for the HTTP server. */
export async function gantryService(options: GantryOptions): Promise<Pick<RunningService, 'service'>> {
  return (await open(options, ['api', 'worker', 'relay'])).start()
}

/** A service in all its roles, called as the HTTP routes call it. */
export async function gantryCaller(options: GantryOptions): Promise<Caller> {
  const { start, close } = await open(options, ['api', 'worker', 'relay'])
  const running = await start()
  const { service } = running
  return {
    async call(n) {
      const input = { kind: 'call' as const, tool: 'demo:add', args: { a: n, b: 1 } }
      const { callId } = await service.submit(input, identity, { waits: true })
      const result = await service.wait(callId, identity, 30_000, never)
      if (result?.status !== 'ok') throw new Error(`a call ended as ${JSON.stringify(result?.error ?? result?.status)}`)
      return result
    },
    async close() {
      await running.stop(10_000)
      await close()
    },
  }
}
