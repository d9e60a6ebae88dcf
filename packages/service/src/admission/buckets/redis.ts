import type { RedisConnections } from '../../brokers/transports/redis/connection.ts'
import { listOf, textOf } from '../../brokers/transports/redis/reply.ts'
import { type Buckets, drawsOf } from './bucket.ts'

/**
 * KEYS: the buckets. ARGV: for each bucket its capacity, its refill per millisecond, least and most. Returns the tokens
 * taken and the time until there would be enough, as texts, because Redis truncates the fractions of numbers. A bucket
 * expires when it is full again.
 */
const drawScript = `local time = redis.call('TIME')
local now = time[1] * 1000 + time[2] / 1000
local answer = {}
for at = 1, #KEYS do
  local capacity, rate = tonumber(ARGV[at * 4 - 3]), tonumber(ARGV[at * 4 - 2])
  local least, most = tonumber(ARGV[at * 4 - 1]), tonumber(ARGV[at * 4])
  local kept = redis.call('HMGET', KEYS[at], 'tokens', 'at')
  local filled = math.max(tonumber(kept[2] or now), 0)
  local from = math.max(filled, now)
  local tokens = math.min(capacity, (tonumber(kept[1]) or capacity) + (from - filled) * rate)
  local taken = 0
  if tokens >= least then taken = math.min(most, math.floor(tokens)) end
  local wait = 0
  if taken == 0 then wait = (least - tokens) / rate end
  tokens = tokens - taken
  redis.call('HSET', KEYS[at], 'tokens', string.format('%.17g', tokens), 'at', string.format('%.17g', from))
  redis.call('PEXPIRE', KEYS[at], string.format('%.0f', math.min(1e11, math.ceil((capacity - tokens) / rate) + 1000)))
  answer[at * 2 - 1] = string.format('%.17g', taken)
  answer[at * 2] = string.format('%.17g', wait)
end
return answer`

/** Buckets in Redis, each a hash under the prefix. */
export function redisBuckets(redis: Pick<RedisConnections, 'call' | 'cluster'>, prefix = 'gantry:bucket:'): Buckets {
  const draw: Buckets['draw'] = async (draws) => {
    if (draws.length === 0) return []
    // Each bucket is drawn from separately: in a cluster each may be on another server.
    if (redis.cluster && draws.length > 1) return (await Promise.all(draws.map((one) => draw([one])))).flat()
    const keys = draws.map(({ key }) => prefix + key)
    const wanted = draws.flatMap(({ capacity, perMs, least, most }) => [capacity, perMs, least, most].map(String))
    const reply = listOf(await redis.call(['EVAL', drawScript, keys.length, ...keys, ...wanted]))
    return draws.map((_, n) => ({ tokens: Number(textOf(reply[n * 2])), waitMs: Number(textOf(reply[n * 2 + 1])) }))
  }
  return {
    draw,
    async give(refunds) {
      await draw(drawsOf(refunds))
    },
    tidy: async () => 0,
  }
}
