import { createHash, randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import type { Brokers } from '../../brokers/open-brokers.ts'
import type { RedisConnections } from '../../brokers/transports/redis/connection.ts'
import { fieldsOf, listOf, numberOf, type Reply, textOf } from '../../brokers/transports/redis/reply.ts'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Bus } from '../../observe/bus.ts'
import type { Ending } from '../../storage/calls/call-store.ts'
import type { Queries } from '../../storage/databases/database.ts'
import { endingOf, openSpool, type Spool } from './spool.ts'

export interface RedisSpoolOptions {
  readonly redis: RedisConnections
  /** The key of the stream; `:bytes`, `:lock` and `:spoilt` are appended for the other keys. */
  readonly key: string
  /** The limit of all entries; 256 MiB when absent. */
  readonly maxBytes?: number
  /** Called for entries that cannot be parsed; they are moved to `<key>:spoilt`. */
  readonly spoilt: (key: string, entries: number) => void
}

const atOnce = 200
/** A drainer that has not renewed its lock for so long counts as dead. */
const lockMs = 15_000
/** The longest wait of `drain` for another drainer, and its polling interval. */
const waitMs = 30_000
const lookEveryMs = 50
/** The time to live of a probe. */
const probeMs = 60_000

/** ARGV: the limit, the total size, then the texts. Adds all of them or none. */
const addScript = `local kept = tonumber(redis.call('GET', KEYS[2]) or '0')
if kept + ARGV[2] > tonumber(ARGV[1]) then return 0 end
for at = 3, #ARGV do redis.call('XADD', KEYS[1], '*', 'ending', ARGV[at]) end
redis.call('INCRBY', KEYS[2], ARGV[2])
return 1`

/** ARGV: id and size, alternating. An entry that another drainer removed is not counted twice. */
const removeScript = `for at = 1, #ARGV, 2 do
  if redis.call('XDEL', KEYS[1], ARGV[at]) == 1 then redis.call('DECRBY', KEYS[2], ARGV[at + 1]) end
end`

const extendScript = `if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

const unlockScript = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end`

interface Entry {
  readonly id: string
  readonly text: Buffer
  readonly ending: Ending | undefined
}

/**
 * Stores outcomes in a Redis that writes to disk before it answers, for all workers together: a worker that drains
 * records the outcomes of all of them. Each entry has the call, its fence and its outcome.
 * - Order: as added, by any worker. `depth` is what this process knows of: all at the start and after a `drain`, and
 *   what it added since.
 * - Durability: `add` resolves once Redis has the entry on disk. When the answer is lost it rejects although the
 *   outcomes may be stored; that is harmless, because the fence decides.
 * - Two drainers: one at a time holds the lock; a second one waits until nothing is left or the lock is free, and gives
 *   up after a while. A drainer that was suspended past its lock may record the same outcomes as another: the fence
 *   decides, and each removes only the entries that it recorded itself.
 * - Errors: `add` rejects with STORE_UNAVAILABLE when the spool is full or Redis is unavailable. Opening rejects with
 *   CONFIG_INVALID when the server could lose acknowledged writes.
 */
export async function redisSpool({ redis, key, maxBytes = 2 ** 28, spoilt }: RedisSpoolOptions): Promise<Spool> {
  await checkDurable(redis)
  const keys = { stream: key, bytes: `${key}:bytes`, lock: `${key}:lock`, spoilt: `${key}:spoilt` }
  const length = async (): Promise<number> => numberOf(await redis.call(['XLEN', keys.stream])) ?? 0
  let depth = await length()

  const remove = async (entries: readonly Entry[]): Promise<void> => {
    const sizes = entries.flatMap(({ id, text }) => [id, text.length])
    await redis.call(['EVAL', removeScript, 2, keys.stream, keys.bytes, ...sizes])
  }
  const putAside = async (entries: readonly Entry[]): Promise<void> => {
    if (entries.length === 0) return
    for (const { text } of entries) await redis.call(['XADD', keys.spoilt, '*', 'ending', text])
    await remove(entries)
    spoilt(keys.spoilt, entries.length)
  }
  /** Drains until nothing is left, or the lock is lost. */
  const handOver = async (token: string, work: (endings: readonly Ending[]) => Promise<void>): Promise<void> => {
    while (numberOf(await redis.call(['EVAL', extendScript, 1, keys.lock, token, lockMs])) === 1) {
      const found = listOf(await redis.call(['XRANGE', keys.stream, '-', '+', 'COUNT', atOnce])).map(entryOf)
      if (found.length === 0) return
      await putAside(found.filter(({ ending }) => ending === undefined))
      const sound = found.filter(({ ending }) => ending !== undefined)
      if (sound.length === 0) continue
      await work(sound.flatMap(({ ending }) => ending ?? []))
      await remove(sound)
    }
  }
  const isFull = (): ToolError => new ToolError('STORE_UNAVAILABLE', `The spool ${key} in Redis is full.`)
  const locked = async (work: (token: string) => Promise<void>): Promise<void> => {
    const token = randomUUID()
    if ((await redis.call(['SET', keys.lock, token, 'NX', 'PX', lockMs])) === null) return pause(lookEveryMs)
    try {
      await work(token)
    } finally {
      await redis.call(['EVAL', unlockScript, 1, keys.lock, token]).catch(() => {})
    }
  }
  return {
    get depth() {
      return depth
    },
    async add(endings) {
      const texts = endings.map((ending) => Buffer.from(JSON.stringify(ending)))
      const bytes = texts.reduce((sum, text) => sum + text.length, 0)
      const kept = await redis.call(['EVAL', addScript, 2, keys.stream, keys.bytes, maxBytes, bytes, ...texts])
      if (kept !== 1) throw isFull()
      depth += endings.length
    },
    async probe() {
      const [, kept] = await redis.pipeline([
        ['SET', `${key}:probe`, '1', 'PX', probeMs],
        ['GET', keys.bytes],
      ])
      if (ToolError.is(kept)) throw kept
      if (Number(kept === null ? 0 : textOf(kept)) >= maxBytes) throw isFull()
    },
    async drain(work) {
      const giveUpAt = performance.now() + waitMs
      for (depth = await length(); depth > 0 && performance.now() < giveUpAt; depth = await length()) {
        await locked((token) => handOver(token, work))
      }
    },
  }
}

/**
 * Refuses a server that answers before it wrote to disk, or that evicts keys. A server whose append-only file was
 * enabled while it ran is safe only after its first rewrite, which cannot be checked.
 */
async function checkDurable(redis: RedisConnections): Promise<void> {
  if (redis.cluster) {
    const message =
      'The spool cannot use a Redis Cluster, because the durability settings of all its servers cannot be checked.'
    throw new ToolError('CONFIG_INVALID', `${message} Use a folder, or a single server.`)
  }
  const asked = ['appendonly', 'appendfsync', 'maxmemory-policy'] as const
  const answers = await redis.pipeline(asked.map((name) => ['CONFIG', 'GET', name] as const))
  const failed = answers.find(ToolError.is)
  if (failed?.retryable) throw failed
  if (failed !== undefined) {
    const message =
      'The spool cannot use this Redis, because it does not allow CONFIG GET, which the check of its durability settings needs.'
    throw new ToolError('CONFIG_INVALID', message, { cause: failed })
  }
  const settings = answers.flatMap((answer) => (ToolError.is(answer) ? [] : [...fieldsOf(answer)]))
  const [appendonly, appendfsync, eviction] = asked.map((name) => textOf(new Map(settings).get(name)))
  const isSafe = appendonly === 'yes' && appendfsync === 'always' && eviction?.startsWith('allkeys') === false
  if (isSafe) return
  const needed = 'appendonly yes, appendfsync always and a maxmemory-policy that is not allkeys-…'
  throw new ToolError('CONFIG_INVALID', `The spool needs a Redis with ${needed}; use another server or a folder.`)
}

function entryOf(reply: Reply): Entry {
  const [id, fields] = listOf(reply)
  const found = fieldsOf(fields).get('ending')
  const text = Buffer.isBuffer(found) ? found : Buffer.alloc(0)
  return { id: textOf(id), text, ending: endingOf(text.toString()) }
}

/** Opens the spool, where outcomes wait while the database is unavailable. */
export function openOutcomeSpool(
  { spool, data }: Pick<ServiceSettings, 'spool' | 'data'>,
  database: Queries,
  { redis }: Pick<Brokers, 'redis'>,
  bus: Bus,
): Promise<Spool> {
  const spoilt = (place: string, outcomes: number): void => {
    const reason = `${outcomes} spooled outcomes cannot be parsed; they were moved to ${place}`
    bus.emit('upkeep:failed', { what: 'spool', reason })
  }
  if (spool === 'redis' && redis !== undefined) return openRedisSpool(database, redis, spoilt)
  return openSpool(join(data, 'spool'), spoilt)
}

/**
 * The spool that all workers of a database share. Its key contains the database, because the outcomes of another
 * database would match no lease there, and be discarded.
 */
async function openRedisSpool(
  database: Queries,
  redis: RedisConnections,
  spoilt: (place: string, outcomes: number) => void,
): Promise<Spool> {
  const [row] = await database.query<{ name: string; made: string }>(
    'select current_database()::text as name, extract(epoch from min(done_at))::text as made from migrations',
  )
  const id = createHash('sha256').update(JSON.stringify(row)).digest('hex').slice(0, 16)
  return redisSpool({ redis, key: `gantry:spool:${id}`, spoilt })
}
