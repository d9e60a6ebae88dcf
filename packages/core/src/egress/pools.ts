import type { Socket } from 'node:net'
import { ToolError } from '@gantry/contract'
import type { Client, Pool } from 'undici'
import type { Admitted } from './admit.ts'
import type { Dialer } from './dial.ts'
import type { EgressSettings } from './options.ts'

type Undici = typeof import('undici')

/** A pool of reusable connections to one origin. */
export interface HeldPool {
  readonly pool: Pool
  /** Aborted when new rules forbid the pool, so that no waiting request is sent. */
  readonly retired: AbortSignal
}

interface Held extends HeldPool {
  readonly admitted: Admitted
  readonly stop: AbortController
  /** Open sockets by client. */
  readonly sockets: Map<Client, Socket>
}

/**
 * Keeps HTTP connections for reuse. A connection is reused only by its owner and under the same verdict, so that a
 * connection to a private address never serves a request that must not reach private addresses.
 */
export interface Pools {
  /** Loads undici; deferred to the first request, because loading takes longer than most programs take to start. */
  load(): Undici | Promise<Undici>
  /** Synchronous, so that the rules cannot change between the admission and the use of the pool. */
  get(admitted: Admitted, undici: Undici): HeldPool
  /** Retires pools that no longer fit: running requests finish, and no new request starts. */
  retire(fits: (admitted: Admitted) => boolean): void
  /** Closes connections without a request, also when other connections of the same origin are in use. */
  closeIdle(): Promise<void>
  close(): Promise<void>
}

export function createPools(settings: EgressSettings, dialer: Dialer): Pools {
  const pools = new Map<string, Held>()
  /** The most recently used pool, while it is kept. */
  let latest: Held | undefined
  let undici: Undici | Promise<Undici> | undefined

  const make = (admitted: Admitted, { Client, Pool }: Undici): Held => {
    const stop = new AbortController()
    const sockets = new Map<Client, Socket>()
    const makeClient = (origin: URL, options: object): Client => {
      const client: Client = new Client(origin, {
        ...options,
        connect: (_, callback) => {
          dialer.dial(admitted, { signal: stop.signal }).then(
            (socket) => {
              sockets.set(client, socket)
              socket.once('close', () => {
                if (sockets.get(client) === socket) sockets.delete(client)
              })
              if (stop.signal.aborted) socket.destroy()
              callback(null, socket)
            },
            (error: unknown) => callback(error instanceof Error ? error : new Error('No connection.'), null),
          )
        },
      })
      return client
    }
    const pool = new Pool(admitted.target.origin, {
      connections: settings.maxConnectionsPerOrigin,
      factory: makeClient,
      allowH2: false,
      pipelining: 1,
      useMilo: false,
      maxHeaderSize: settings.maxHeaderBytes,
      headersTimeout: 0,
      keepAliveMaxTimeout: 30_000,
    })
    return { admitted, pool, stop, sockets, retired: stop.signal }
  }
  const closeIdle = async (): Promise<void> => {
    const idle = [...pools].filter(([, { pool }]) => pool.stats.size === 0)
    for (const [key] of idle) pools.delete(key)
    for (const { sockets } of pools.values()) {
      for (const [client, socket] of sockets) if (client.stats.size === 0) socket.destroy()
    }
    latest = undefined
    await Promise.allSettled(idle.map(([, { pool }]) => pool.destroy()))
  }
  return {
    load() {
      undici ??= import('undici').then((loaded) => {
        undici = loaded
        return loaded
      })
      return undici
    },
    get(admitted, loaded) {
      if (latest !== undefined && isLike(latest.admitted, admitted)) return latest
      // An origin holds no line break, so the key is unambiguous.
      const key = `${admitted.private}\n${admitted.target.origin}\n${admitted.owner}`
      const held = pools.get(key)
      if (held === undefined && pools.size >= settings.maxConnections) void closeIdle()
      latest = held ?? make(admitted, loaded)
      if (held === undefined) pools.set(key, latest)
      return latest
    },
    retire(fits) {
      latest = undefined
      for (const [key, { admitted, pool, stop }] of pools) {
        if (fits(admitted)) continue
        pools.delete(key)
        stop.abort(noLonger(admitted))
        pool.close().catch(() => {})
      }
    },
    closeIdle,
    async close() {
      const all = [...pools.values()]
      pools.clear()
      latest = undefined
      await Promise.allSettled(all.map(({ pool }) => pool.destroy()))
    },
  }
}

function isLike(one: Admitted, other: Admitted): boolean {
  return one.owner === other.owner && one.private === other.private && one.target.origin === other.target.origin
}

/** EGRESS_DENIED for a connection that new rules forbid. */
export function noLonger({ target }: Admitted): ToolError {
  return new ToolError('EGRESS_DENIED', `The egress rules changed and no longer allow ${target.origin}.`)
}
