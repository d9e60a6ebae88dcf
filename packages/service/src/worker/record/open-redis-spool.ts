import { createHash } from 'node:crypto'
import type { RedisConnections } from '../../brokers/transports/redis/connection.ts'
import type { Queries } from '../../storage/databases/database.ts'
import { redisSpool } from './redis-spool.ts'
import type { Spool } from './spool.ts'

/**
 * The spool that all workers of a database share. It is named after the database, because the outcomes of another one
 * would be nobody's there, and be thrown away.
 */
export async function openRedisSpool(
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
