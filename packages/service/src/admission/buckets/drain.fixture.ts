import { openRedis } from '../../brokers/transports/redis/connection.ts'
import { openPostgres } from '../../storage/databases/postgres.ts'
import { redisBuckets } from './redis.ts'
import { sqlBuckets } from './sql.ts'

// A process that takes from a bucket until nothing is left, and prints how much it got.
const [url = '', key = '', capacity = '0'] = process.argv.slice(2)
const engine = url.startsWith('postgres') ? await openPostgres({ url }) : await openRedis({ url })
const buckets = 'query' in engine ? sqlBuckets(engine) : redisBuckets(engine)
const draw = { key, capacity: Number(capacity), perMs: 1e-12, least: 1, most: 3 }
let got = 0
for (;;) {
  const tokens = (await buckets.draw([draw]))[0]?.tokens ?? 0
  if (tokens === 0) break
  got += tokens
}
await engine.close()
process.stdout.write(String(got))
