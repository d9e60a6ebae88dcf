import { randomUUID } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { decode } from '@msgpack/msgpack'
import { Redis } from 'ioredis'
import type { RedisServer } from '../scripts/engines/redis.ts'
import { type StargazerGateway, stargazerGateway } from '../test/gateways/stargazer.ts'
import { waitingFor } from '../test/gateways/waiting.ts'
import type { BrokerBacklog } from './broker-drain.ts'
import { bullmqWorkers, gantryWorkers, type Workers } from './broker-workers.ts'
import { bullmqQueue, type Caller } from './queue-peers.ts'

const stream = 'sg:stream:tools'
const replies = 'sg:stream:tools:replies:bench'
const identity = { principal: 'bench', tenant: 'bench', permissions: ['*'] }
const tool = 'demo__add'
const perPipeline = 1_000
const held = 'bench:held'
const letGo = `
  for _, data in ipairs(redis.call('LRANGE', KEYS[1], 0, -1)) do redis.call('XADD', KEYS[2], '*', 'data', data) end
  return redis.call('DEL', KEYS[1])`

/** Workers that consume calls from a Redis server. */
export function redisWorkers({ url }: RedisServer, databaseUrl: string, count = 1): Promise<Workers> {
  return gantryWorkers(databaseUrl, { transport: 'redis', redisUrl: url, redis: { identity } }, count)
}

/** Native messages, consumed by the given number of processes. */
export function nativeBacklog(server: RedisServer, workers = 1): BrokerBacklog {
  return {
    fill: (count) =>
      connected(server, async (redis) => {
        await redis.flushall()
        for (let from = 0; from < count; from += perPipeline) {
          const pipeline = redis.pipeline()
          for (let n = from; n < Math.min(count, from + perPipeline); n += 1) {
            pipeline.rpush(held, nativeCall(n, replies, randomUUID()))
          }
          await pipeline.exec()
        }
      }),
    async start(databaseUrl) {
      const started = await redisWorkers(server, databaseUrl, workers)
      // Start all workers first: otherwise the first would finish many messages before the last is ready.
      await connected(server, (redis) => redis.eval(letGo, 2, held, stream))
      return started
    },
    done: () => connected(server, (redis) => entriesAdded(redis, replies)),
    check: () =>
      connected(server, async (redis) => {
        const { result } = JSON.parse(String(await lastEntry(redis, replies))) as NativeReply
        if (result?.status !== 'ok') throw new Error(`a call ended as ${result?.status}`)
      }),
  }
}

interface NativeReply {
  readonly correlationId: string
  readonly result?: { readonly status: string }
}

function nativeCall(n: number, replyTo: string, correlationId: string): string {
  return JSON.stringify({ tool, args: { a: n, b: 1 }, correlationId, replyTo })
}

/** Messages of the Stargazer gateway, each with its session and its catalog hash. */
export function stargazerBacklog(server: RedisServer, hash: string): BrokerBacklog {
  let gateway: Pick<StargazerGateway, 'replyStream'> = { replyStream: '' }
  return {
    async fill(count) {
      await connected(server, (redis) => redis.flushall())
      const sending = await stargazerGateway({ redisUrl: server.url, maxlen: 0 })
      gateway = sending
      const waiting = Array.from({ length: count }, (_, n) => sending.send(tool, { a: n, b: 1 }, { schemaHash: hash }))
      await Promise.all(waiting)
      await sending.close()
    },
    start: (databaseUrl) => redisWorkers(server, databaseUrl),
    done: () => connected(server, (redis) => entriesAdded(redis, gateway.replyStream)),
    check: () =>
      connected(server, async (redis) => {
        const reply = decode(await lastEntry(redis, gateway.replyStream)) as { readonly result?: string }
        if (reply.result === undefined) throw new Error(`a call ended as ${JSON.stringify(reply)}`)
      }),
  }
}

/** The hash of the catalog that a worker with this configuration publishes. */
export async function catalogHash(server: RedisServer, databaseUrl: string): Promise<string> {
  const workers = await redisWorkers(server, databaseUrl)
  try {
    const gateway = await openGateway(server)
    await gateway.close()
    return gateway.catalog()?.schema_hash ?? ''
  } finally {
    await workers.stop()
  }
}

/** A gateway with a catalog. */
async function openGateway({ url }: RedisServer): Promise<StargazerGateway> {
  const gateway = await stargazerGateway({ redisUrl: url, maxlen: 0 })
  while (gateway.catalog() === undefined) {
    await pause(100)
    await gateway.refresh()
  }
  return gateway
}

/** Jobs of BullMQ; their results are kept, as Gantry's are. */
export function bullmqBacklog(server: RedisServer): BrokerBacklog {
  const done = (): Promise<number> => connected(server, (redis) => redis.zcard('bull:add:completed'))
  return {
    async fill(count) {
      await connected(server, (redis) => redis.flushall())
      const queue = await bullmqQueue(server)
      await queue.add(count)
      await queue.close()
    },
    start: () => bullmqWorkers(server),
    done,
    async check() {
      const failed = await connected(server, (redis) => redis.zcard('bull:add:failed'))
      if (failed > 0) throw new Error(`${failed} jobs failed`)
    },
  }
}

/** Sends native messages and reads the replies as they arrive. */
export async function nativeCaller({ url }: RedisServer): Promise<Caller> {
  const replyTo = `${replies}-${randomUUID()}`
  const redis = new Redis(url, { enableAutoPipelining: true })
  const reader = new Redis(url)
  const waiting = waitingFor<NativeReply>('The caller')
  const read = async (): Promise<void> => {
    for (let last = '0-0'; ; ) {
      const found = await reader.xread('COUNT', 1_000, 'BLOCK', 0, 'STREAMS', replyTo, last)
      for (const [id, fields] of entriesOf(found)) {
        last = id
        const reply = JSON.parse(fields[1] ?? '{}') as NativeReply
        waiting.settle(reply.correlationId, reply)
      }
    }
  }
  const reading = read().catch(() => undefined)
  return {
    async call(n) {
      const id = randomUUID()
      const answer = waiting.add(id, 30_000)
      redis.xadd(stream, '*', 'data', nativeCall(n, replyTo, id)).catch((error: Error) => waiting.fail(id, error))
      const { result } = await answer
      if (result?.status !== 'ok') throw new Error(`a call ended as ${result?.status}`)
    },
    async close() {
      reader.disconnect()
      await reading
      waiting.close()
      redis.disconnect()
    },
  }
}

/** Calls in the format of the Stargazer gateway. */
export async function stargazerCaller(server: RedisServer): Promise<Caller> {
  const gateway = await openGateway(server)
  return {
    async call(n) {
      const reply = await gateway.call(tool, { a: n, b: 1 })
      if (reply.result === undefined) throw new Error(`a call ended as ${JSON.stringify(reply)}`)
    },
    close: gateway.close,
  }
}

const kept = new Map<string, Redis>()

/** One connection for each server; call `disconnect` before stopping the server. */
async function connected<T>({ url }: RedisServer, work: (redis: Redis) => Promise<T>): Promise<T> {
  const redis = kept.get(url) ?? new Redis(url)
  kept.set(url, redis)
  return work(redis)
}

export function disconnect({ url }: RedisServer): void {
  kept.get(url)?.disconnect()
  kept.delete(url)
}

/** The number of entries ever added: a reply stream drops the oldest. */
async function entriesAdded(redis: Redis, key: string): Promise<number> {
  const about = (await redis.xinfo('STREAM', key).catch(() => [])) as readonly unknown[]
  return Number(about[about.indexOf('entries-added') + 1] ?? 0)
}

async function lastEntry(redis: Redis, key: string): Promise<Buffer> {
  const [entry] = await redis.xrevrangeBuffer(key, '+', '-', 'COUNT', 1)
  return entry?.[1][1] ?? Buffer.of()
}

/** The entries of the requested stream, for both protocol versions. */
function entriesOf(found: unknown): readonly (readonly [string, readonly string[]])[] {
  if (!Array.isArray(found)) return []
  return Array.isArray(found[0]) ? found[0][1] : found[1]
}
