import { ToolError } from '@gantry/contract'
import type { RedisConnections } from './connection.ts'
import type { Command } from './reply.ts'

/** A record as a hash with a time to live. */
interface TaskHash {
  readonly key: string
  /** One of them is its `status`. */
  readonly fields: { readonly [name: string]: string }
  readonly ttlMs: number
}

/**
 * Keeps the records of background tasks as hashes. Each touches one key, so that it does not matter on which server of a
 * cluster that is; the status is what decides between a record that begins and one that has ended.
 * - Errors: STORE_UNAVAILABLE, not retryable when the key holds something else.
 */
export function redisTaskRecords(redis: Pick<RedisConnections, 'call' | 'pipeline'>) {
  const write = async ({ key, fields, ttlMs }: TaskHash): Promise<void> => {
    const commands: Command[] = [
      ['HSET', key, ...Object.entries(fields).flat()],
      ['PEXPIRE', key, ttlMs],
    ]
    const failed = (await redis.pipeline(commands)).find((answer) => ToolError.is(answer))
    if (ToolError.is(failed)) throw failed
  }
  return {
    /** Begins a record, unless there is one; whether it did. One that was begun and not written whole is written again. */
    async open(task: TaskHash): Promise<boolean> {
      const { key, fields } = task
      const { status = 'running' } = fields
      const isNew = (await redis.call(['HSETNX', key, 'status', status])) === 1
      const found = isNew ? status : String(await redis.call(['HGET', key, 'status']))
      if (found !== status) return false
      await write(task)
      return true
    },
    /** Completes a record; where there is none, none is made. */
    async close(task: TaskHash): Promise<void> {
      if ((await redis.call(['EXISTS', task.key])) === 1) await write(task)
    },
    async drop(key: string): Promise<void> {
      await redis.call(['DEL', key])
    },
  }
}
