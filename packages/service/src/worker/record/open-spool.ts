import { join } from 'node:path'
import type { Brokers } from '../../brokers/open-brokers.ts'
import type { ServiceSettings } from '../../config/service-settings.ts'
import type { Bus } from '../../observe/bus.ts'
import type { Queries } from '../../storage/databases/database.ts'
import { openRedisSpool } from './open-redis-spool.ts'
import { openSpool, type Spool } from './spool.ts'

/** Opens the place where outcomes wait while the database is away. */
export function openOutcomeSpool(
  { spool, data }: Pick<ServiceSettings, 'spool' | 'data'>,
  database: Queries,
  { redis }: Pick<Brokers, 'redis'>,
  bus: Bus,
): Promise<Spool> {
  const spoilt = (place: string, outcomes: number): void => {
    const reason = `${outcomes} outcomes cannot be read; they were put into ${place}`
    bus.emit('upkeep:failed', { what: 'spool', reason })
  }
  if (spool === 'redis' && redis !== undefined) return openRedisSpool(database, redis, spoilt)
  return openSpool(join(data, 'spool'), spoilt)
}
