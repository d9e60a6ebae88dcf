import { randomUUID } from 'node:crypto'
import { after, type TestContext } from 'node:test'
import { type RedisOptions, type RedisServer, startRedis } from '../../../../../../scripts/engines/redis.ts'
import { type OpenRedisOptions, openRedis, type RedisConnections } from './connection.ts'

/** One server for a test file, started by the first test that needs it and stopped after the last. */
export function redisForFile(options: RedisOptions = {}): RedisForFile {
  let started: Promise<RedisServer> | undefined
  after(async () => (await started?.catch(() => undefined))?.stop())
  const shared = (): Promise<RedisServer> => {
    started ??= startRedis(options)
    return started
  }
  const server = async (t: TestContext): Promise<RedisServer> => {
    try {
      return await shared()
    } catch (error) {
      if (process.env.GANTRY_ENGINES !== 'required') t.skip('Redis is not installed')
      throw error
    }
  }
  return {
    shared,
    server,
    async open(t, how = {}) {
      const redis = await openRedis({ url: (await server(t)).url, ...how })
      t.after(() => redis.close())
      return redis
    },
  }
}

export interface RedisForFile {
  /** Rejects when Redis is not installed. */
  shared(): Promise<RedisServer>
  /** The same; skips the test when Redis is not installed. */
  server(t: TestContext): Promise<RedisServer>
  /** Connections for one test, closed after it. */
  open(t: TestContext, how?: Partial<OpenRedisOptions>): Promise<RedisConnections>
}

/** A key that no other test uses. */
export function freshKey(): string {
  return `test:${randomUUID()}`
}
