import type pg from 'pg'
import type { Load } from '../database.ts'
import { closedError, connectError } from './errors.ts'

/**
 * Connections that are kept for the next statement. Each is with one taker at a time; who comes when all are taken waits
 * in order. A connection counts until its stream is closed, so that there are never more of them than allowed.
 */
export interface Connections {
  /** Rejects with STORE_UNAVAILABLE when none can be made, none becomes free in time, or at `close`. */
  take(): Promise<pg.Client>
  /** Gives one back; one that is broken is ended. */
  give(client: pg.Client, broken: boolean): void
  load(): Load
  /** Waits a moment for those that are taken, then ends everything. */
  close(): Promise<void>
}

interface ConnectionsOptions {
  readonly open: () => pg.Client
  /** What is done on each new connection before anybody gets it. */
  readonly prepare?: (client: pg.Client) => Promise<void>
  readonly most: number
  /** How long to wait for a free one. */
  readonly waitMs: number
  /** After this time one that nobody uses is ended; without it never. */
  readonly idleMs?: number
}

interface Waiting {
  readonly resolve: (client: pg.Client) => void
  readonly reject: (error: unknown) => void
  readonly timer: NodeJS.Timeout
}

/** What is still running at `close` may go on for so long, and so may a goodbye. */
const graceMs = 5_000

export function createConnections({ open, prepare, most, waitMs, idleMs }: ConnectionsOptions): Connections {
  const all = new Set<pg.Client>()
  const idle = new Map<pg.Client, NodeJS.Timeout | undefined>()
  const waiting = new Set<Waiting>()
  const emptied = Promise.withResolvers<void>()
  let closed = false

  const connect = async (): Promise<pg.Client> => {
    try {
      return await made(open())
    } catch (error) {
      throw connectError(error)
    }
  }
  const made = async (client: pg.Client): Promise<pg.Client> => {
    all.add(client)
    // Whoever uses the connection hears of its end by his statement; without this an idle one would end the process.
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
  const rest = (client: pg.Client): void => {
    idle.set(client, idleMs === undefined ? undefined : setTimeout(leave, idleMs, client).unref())
  }
  /** In order, as long as the other side plays its part. */
  const leave = (client: pg.Client): void => {
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
  /** Who waits no longer, because he is being served. */
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
      else if (closed) leave(client)
      else rest(client)
    },
    async close() {
      closed = true
      for (let next = firstWaiting(); next !== undefined; next = firstWaiting()) next.reject(closedError())
      for (const client of idle.keys()) leave(client)
      if (all.size === 0) emptied.resolve()
      const late = setTimeout(() => {
        for (const client of all) destroy(client)
      }, graceMs)
      await emptied.promise
      clearTimeout(late)
    },
  }
}

/** The one that was used last is the most likely to be alive, and the others may become idle for long enough to end. */
function lastOf(clients: ReadonlyMap<pg.Client, unknown>): pg.Client | undefined {
  return [...clients.keys()].at(-1)
}

/** Without a goodbye, which a server that does not answer would not hear. */
function destroy(client: pg.Client): void {
  client.connection.stream.destroy()
}

type Hear = (payload: string | undefined) => void

/** Who listens on which channel. */
export interface Channels {
  names(): string[]
  add(channel: string, hear: Hear): void
  /** Answers whether nobody listens on the channel any more. */
  remove(channel: string, hear: Hear): boolean
  tell(channel: string, payload: string): void
  /** Tells everybody to look for himself. */
  tellAll(): void
}

export function createChannels(): Channels {
  const channels = new Map<string, Set<Hear>>()
  return {
    names: () => [...channels.keys()],
    add(channel, hear) {
      const listeners = channels.get(channel) ?? new Set()
      channels.set(channel, listeners.add(hear))
    },
    remove(channel, hear) {
      const listeners = channels.get(channel)
      listeners?.delete(hear)
      return listeners?.size === 0 && channels.delete(channel)
    },
    tell(channel, payload) {
      for (const hear of channels.get(channel) ?? []) hear(payload)
    },
    tellAll() {
      for (const listeners of channels.values()) for (const hear of listeners) hear(undefined)
    },
  }
}

/** A channel's name as part of a statement, where parameters are not possible. */
export function quoted(channel: string): string {
  return `"${channel.replaceAll('"', '""')}"`
}
