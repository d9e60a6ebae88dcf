import { createHash } from 'node:crypto'
import { join } from 'node:path'
import type { Brokers } from '../../brokers/open-brokers.ts'
import type { RedisConnections } from '../../brokers/transports/redis/connection.ts'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Bus } from '../../observe/bus.ts'
import type { Queries } from '../../storage/databases/database.ts'
import { redisSpool } from './redis-spool.ts'
import { openSpool, type Spool } from './spool.ts'

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
