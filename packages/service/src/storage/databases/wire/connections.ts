import { ToolError } from '@gantry/contract'
import pg from 'pg'
import type { Database, Load, Queries, Row } from '../database.ts'
import { closedError, connectError, isBroken, type Outcome, statementError } from './errors.ts'

/**
 * A pool of connections. A connection serves one taker at a time; takers wait in order while all are taken.
 *
 * States of a connection: `connecting` → `taken` ⇄ `idle` → `ended`
 *
 * - `connecting` → `taken`: it is connected and prepared.
 * - `connecting` → `ended`: connecting or preparing failed, or the pool was closed meanwhile.
 * - `taken` → `taken`: it is given back while others wait.
 * - `taken` → `idle`: it is given back and none waits.
 * - `taken` → `ended`: it is given back broken, or after `close`; or its stream closed.
 * - `idle` → `taken`: `take`, the most recently used first.
 * - `idle` → `ended`: `idleMs` passed, `close`, or its stream closed.
 *
 * A connection counts until its stream is closed, so that there are never more than `most`.
 */
export interface Connections {
  /** Rejects with STORE_UNAVAILABLE when connecting fails, no connection becomes free in time, or at `close`. */
  take(): Promise<pg.Client>
  /** Gives a connection back; a broken one is ended. */
  give(client: pg.Client, broken: boolean): void
  load(): Load
  /** Waits a moment for connections that are taken, then ends all. */
  close(): Promise<void>
}

interface ConnectionsOptions {
  readonly open: () => pg.Client
  /** Runs on each new connection before it is taken. */
  readonly prepare?: (client: pg.Client) => Promise<void>
  readonly most: number
  /** How long to wait for a free connection. */
  readonly waitMs: number
  /** An idle connection is ended after this time; never when absent. */
  readonly idleMs?: number
}

interface Waiting {
  readonly resolve: (client: pg.Client) => void
  readonly reject: (error: unknown) => void
  readonly timer: NodeJS.Timeout
}

/** At `close`, how long running statements may take, and the orderly end of a connection. */
const graceMs = 5_000

export function createConnections({ open, prepare, most, waitMs, idleMs }: ConnectionsOptions): Connections {
  const all = new Set<pg.Client>()
  const idle = new Map<pg.Client, NodeJS.Timeout | undefined>()
  const waiting = new Set<Waiting>()
  const emptied = Promise.withResolvers<void>()
  let closed = false

  const connect = async (): Promise<pg.Client> => {
    try {
      return await connected(open())
    } catch (error) {
      throw connectError(error)
    }
  }
  const connected = async (client: pg.Client): Promise<pg.Client> => {
    all.add(client)
    // A running statement reports the error; without a listener the error of an idle connection would crash the
    // process.
    client.on('error', () => {})
    client.once('end', () => forget(client))
    try {
      await client.connect()
      await prepare?.(client)
      if (closed) throw new Error('The database was closed.')
      return client
    } catch (error) {
      destroy(client)
      throw error
    }
  }
  const forget = (client: pg.Client): void => {
    all.delete(client)
    clearTimeout(idle.get(client))
    idle.delete(client)
    const next = firstWaiting()
    if (next !== undefined) connect().then(next.resolve, next.reject)
    if (closed && all.size === 0) emptied.resolve()
  }
  const park = (client: pg.Client): void => {
    idle.set(client, idleMs === undefined ? undefined : setTimeout(end, idleMs, client).unref())
  }
  /** Ends a connection in order, and destroys it when the server does not answer. */
  const end = (client: pg.Client): void => {
    clearTimeout(idle.get(client))
    idle.delete(client)
    void client.end()
    const late = setTimeout(destroy, graceMs, client)
    client.once('end', () => clearTimeout(late))
  }
  const wait = (): Promise<pg.Client> => {
    const { promise, resolve, reject } = Promise.withResolvers<pg.Client>()
    const timer = setTimeout(() => {
      waiting.delete(entry)
      reject(connectError(new Error('No connection became free in time.')))
    }, waitMs)
    const entry: Waiting = { resolve, reject, timer }
    waiting.add(entry)
    return promise
  }
  /** Removes the first waiter, to be served. */
  const firstWaiting = (): Waiting | undefined => {
    const [next] = waiting
    if (next === undefined) return undefined
    waiting.delete(next)
    clearTimeout(next.timer)
    return next
  }
  return {
    load: () => ({ open: all.size, idle: idle.size, waiting: waiting.size }),
    async take() {
      if (closed) throw closedError()
      const client = lastOf(idle)
      if (client === undefined) return await (all.size < most ? connect() : wait())
      clearTimeout(idle.get(client))
      idle.delete(client)
      return client
    },
    give(client, broken) {
      if (!all.has(client)) return
      if (broken) return destroy(client)
      const next = firstWaiting()
      if (next !== undefined) next.resolve(client)
      else if (closed) end(client)
      else park(client)
    },
    async close() {
      closed = true
      for (let next = firstWaiting(); next !== undefined; next = firstWaiting()) next.reject(closedError())
      for (const client of idle.keys()) end(client)
      if (all.size === 0) emptied.resolve()
      const late = setTimeout(() => {
        for (const client of all) destroy(client)
      }, graceMs)
      await emptied.promise
      clearTimeout(late)
    },
  }
}

/** The most recently used connection is the most likely to be alive, and the others can reach their idle time. */
function lastOf(clients: ReadonlyMap<pg.Client, unknown>): pg.Client | undefined {
  return [...clients.keys()].at(-1)
}

/** Closes the stream at once: a server that does not answer would not read an orderly end. */
function destroy(client: pg.Client): void {
  client.connection.stream.destroy()
}

/** The role whose rights a statement has: the login's own, or one that the login may assume. */
export type Role = 'none' | 'gantry_service'

type WireQueries = Pick<Database, 'query' | 'transaction' | 'asTenant'>

/**
 * Statements and transactions over the connections of a pool, for each role. A connection keeps the role of its last
 * statement, so that assuming one costs a statement once.
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
        const { rows } = await send<R>(client, nameOf, sql, parameters)
        // The transaction is read-only, so its end need not be awaited.
        end('commit')
        return rows
      } catch (error) {
        if (isBroken(error)) connections.give(client, true)
        else end('rollback')
        throw statementError(error, 'none')
      }
    },
  })
}

/** A name with a NUL character becomes the empty name, which belongs to no tenant and sees no row. */
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
        const { rows } = await send<R>(client, nameOf, sql, parameters)
        connections.give(client, false)
        return rows
      } catch (error) {
        connections.give(client, isBroken(error))
        throw statementError(error, 'unknown')
      }
    },
    async transaction(work) {
      const client = await take()
      const state = { ended: false, broken: false }
      const step = async <R extends Row>(lost: Outcome, sql: string, parameters?: readonly unknown[]) => {
        if (state.ended) throw new ToolError('INTERNAL', 'The transaction has ended.')
        try {
          return await send<R>(client, nameOf, sql, parameters)
        } catch (error) {
          state.broken ||= isBroken(error)
          throw statementError(error, lost)
        }
      }
      const query: Queries['query'] = async <R extends Row>(sql: string, parameters?: readonly unknown[]) =>
        (await step<R>('none', sql, parameters)).rows
      try {
        await step('none', 'begin')
        const value = await work({ query })
        const { command } = await step('unknown', 'commit')
        if (command !== 'COMMIT') throw new ToolError('INTERNAL', 'A transaction continued after a failed statement.')
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

/** The driver's parsers, except that 64-bit integers are numbers: ids and counts stay below 2⁵³. */
export const types: pg.CustomTypesConfig = {
  getTypeParser: (oid, format) => (oid === int8 && format !== 'binary' ? Number : pg.types.getTypeParser(oid, format)),
}

/** Sends a statement before the promise is returned. */
export async function send<R extends Row>(
  client: pg.Client,
  nameOf: NameOf,
  sql: string,
  parameters: readonly unknown[] = [],
): Promise<pg.QueryResult<R>> {
  if (parameters.length === 0) {
    // A text without parameters can contain several statements; the rows are those of the last.
    const result: pg.QueryResult<R> | pg.QueryResult<R>[] = await client.query<R>(sql)
    return Array.isArray(result) ? result.at(-1) : result
  }
  const name = nameOf(sql)
  return await client.query<R>({ text: sql, values: [...parameters], ...(name === undefined ? {} : { name }) })
}

/** The name of the prepared statement for a text; undefined when it is not prepared. */
export type NameOf = (sql: string) => string | undefined

/** Limit of prepared statements per connection; hot statements are few. */
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

type Listener = (payload: string | undefined) => void

/** How a database is made to send the notifications of a channel, by its quoted name, and to stop. */
interface Subscription {
  listen(channel: string): Promise<unknown>
  unlisten(channel: string): Promise<unknown> | undefined
}

/** The listeners of each notification channel. */
export interface Channels {
  names(): string[]
  /** Adds a listener, and removes it again when the subscription fails. Resolves with the function that removes it. */
  listen(channel: string, listener: Listener, subscription: Subscription): Promise<() => Promise<void>>
  /** Passes the notifications of a connection on to the listeners. */
  follow(client: pg.Client): void
  /** Calls every listener with `undefined`: notifications may have been lost. */
  notifyAll(): void
}

export function createChannels(): Channels {
  const channels = new Map<string, Set<{ readonly listener: Listener }>>()
  /** Whether it was the last listener of its channel. */
  const remove = (channel: string, entry: { readonly listener: Listener }): boolean => {
    const entries = channels.get(channel)
    entries?.delete(entry)
    return entries?.size === 0 && channels.delete(channel)
  }
  return {
    names: () => [...channels.keys()],
    async listen(channel, listener, { listen, unlisten }) {
      const entry = { listener }
      channels.set(channel, (channels.get(channel) ?? new Set()).add(entry))
      try {
        await listen(quoted(channel))
      } catch (error) {
        remove(channel, entry)
        throw error
      }
      return async () => {
        if (remove(channel, entry)) await unlisten(quoted(channel))?.catch(() => {})
      }
    },
    follow(client) {
      client.on('notification', ({ channel, payload = '' }) => {
        for (const { listener } of channels.get(channel) ?? []) listener(payload)
      })
    },
    notifyAll() {
      for (const entries of channels.values()) for (const { listener } of entries) listener(undefined)
    },
  }
}

/** A channel's name, quoted, because LISTEN and NOTIFY take no parameters. */
export function quoted(channel: string): string {
  return `"${channel.replaceAll('"', '""')}"`
}
