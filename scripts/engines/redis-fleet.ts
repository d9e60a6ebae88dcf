import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { freePort } from './keeper.ts'
import { type RedisOptions, type RedisServer, startRedis } from './redis.ts'

/** A master, a replica and a sentinel that monitors both, each with the same password. */
export interface SentinelFleet {
  /** `redis+sentinel://…`, with the password of the servers. */
  readonly url: string
  readonly password: string
  readonly servers: readonly [RedisServer, RedisServer]
  /** Promotes the replica; resolves once the sentinel reports it as the master. */
  failOver(): Promise<void>
  stop(): Promise<void>
}

const name = 'gantry'

export async function startSentinelFleet(): Promise<SentinelFleet> {
  const started: RedisServer[] = []
  const start = async (options: RedisOptions): Promise<RedisServer> => {
    const server = await startRedis(options)
    started.push(server)
    return server
  }
  const stop = async (): Promise<void> => {
    await Promise.all(started.map((server) => server.stop()))
  }
  try {
    const main = await start({})
    const { password } = main
    const auth = `masterauth ${password}`
    const replica = await start({ password, more: [auth, `replicaof 127.0.0.1 ${main.port}`] })
    await asked(main, (client) => client.config('SET', 'masterauth', password))
    const watching = [
      `sentinel monitor ${name} 127.0.0.1 ${main.port} 1`,
      `sentinel auth-pass ${name} ${password}`,
      `sentinel down-after-milliseconds ${name} 5000`,
      `sentinel failover-timeout ${name} 10000`,
    ]
    const sentinel = await start({ password, sentinel: true, more: watching })
    const ask = (...words: string[]): Promise<unknown> => asked(sentinel, (client) => client.call('SENTINEL', ...words))
    await until(async () => ((await ask('REPLICAS', name)) as unknown[]).length === 1)
    await until(async () => (await asked(replica, (client) => client.info())).includes('master_link_status:up'))
    return {
      password,
      servers: [main, replica],
      stop,
      url: `redis+sentinel://:${password}@127.0.0.1:${sentinel.port}/${name}`,
      async failOver() {
        await until(async () => (await ask('FAILOVER', name).catch(() => '')) === 'OK')
        await until(async () => {
          const [, port] = (await ask('GET-MASTER-ADDR-BY-NAME', name)) as [string, string]
          return Number(port) === replica.port
        })
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** Three servers that share the slots of a cluster. */
export interface RedisCluster {
  /** `redis+cluster://…`, with the password. */
  readonly url: string
  readonly servers: readonly RedisServer[]
  stop(): Promise<void>
}

const slots = 16_384

export async function startRedisCluster(size = 3): Promise<RedisCluster> {
  const servers: RedisServer[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(servers.map((server) => server.stop()))
  }
  try {
    const buses: number[] = []
    for (let at = 0; at < size; at++) {
      const bus = await freePort()
      const more = ['cluster-enabled yes', `cluster-port ${bus}`, 'cluster-node-timeout 5000']
      const { password } = servers[0] ?? {}
      servers.push(await startRedis({ more, ...(password === undefined ? {} : { password }) }))
      buses.push(bus)
    }
    for (const [at, server] of servers.entries()) {
      const [from, to] = [Math.floor((slots * at) / size), Math.floor((slots * (at + 1)) / size) - 1]
      await asked(server, async (client) => {
        await client.call('CLUSTER', 'ADDSLOTSRANGE', String(from), String(to))
        for (const [other, { port }] of servers.entries()) {
          if (other < at) await client.call('CLUSTER', 'MEET', '127.0.0.1', String(port), String(buses[other]))
        }
      })
    }
    for (const server of servers) {
      await until(async () => {
        const info = String(await asked(server, (client) => client.call('CLUSTER', 'INFO')))
        return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${size}`)
      })
    }
    const hosts = servers.map(({ port }) => `127.0.0.1:${port}`).join(',')
    return { servers, stop, url: `redis+cluster://:${servers[0]?.password ?? ''}@${hosts}` }
  } catch (error) {
    await stop()
    throw error
  }
}

async function asked<T>({ port, password }: RedisServer, work: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis({ port, password, host: '127.0.0.1', lazyConnect: true, retryStrategy: () => null })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return await work(client)
  } finally {
    client.disconnect()
  }
}

const longestMs = 60_000

async function until(done: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + longestMs
  while (performance.now() < end) {
    if (await done()) return
    await pause(50)
  }
  throw new Error('The servers of Redis did not find each other in time.')
}
