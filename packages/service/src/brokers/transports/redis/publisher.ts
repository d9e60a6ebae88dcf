import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Outgoing, Publisher, Sent } from '../transport.ts'
import type { RedisConnections } from './connection.ts'
import type { Command, Reply } from './reply.ts'

export interface RedisPublisherOptions {
  readonly redis: RedisConnections
  /** The field of an entry that holds the message; `data` when absent. */
  readonly field?: string
  /** The largest message; 16 MiB when absent. */
  readonly maxBytes?: number
  /** The approximate number of messages that a stream keeps, read or not; 10,000 when absent, 0 is unlimited. */
  readonly replyMaxLen?: number
}

/** Adds messages to streams, a batch in one round trip. Headers are further fields of the entry. */
export function redisPublisher(options: RedisPublisherOptions): Publisher {
  const { redis, field = 'data', maxBytes = 16 * 1024 * 1024, replyMaxLen = 10_000 } = options
  const keep = replyMaxLen === 0 ? [] : ['MAXLEN', '~', replyMaxLen]
  const commandOf = ({ to, bytes, headers = {} }: Outgoing): Command => {
    const others = Object.entries(headers).flatMap(([name, value]) => (name === field ? [] : [name, value]))
    return ['XADD', to, ...keep, '*', field, Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length), ...others]
  }
  return {
    async send(messages, signal) {
      const small = messages.filter(({ bytes }) => bytes.length <= maxBytes)
      if (signal.aborted) return messages.map(() => givenUp)
      const answers = await unlessAborted(redis.pipeline(small.map(commandOf)), signal, () => givenUp).catch(
        (reason: unknown) => {
          if (reason !== givenUp) throw reason
          return undefined
        },
      )
      const became = new Map(
        small.map((message, at) => [message, answers === undefined ? givenUp : sentOf(answers[at])]),
      )
      return messages.map((message) => became.get(message) ?? tooLarge(message, maxBytes))
    },
    close: async () => undefined,
  }
}

const givenUp: Sent = { kind: 'again', error: 'The send was aborted before Redis answered.' }

function tooLarge({ to, bytes }: Outgoing, maxBytes: number): Sent {
  return { kind: 'never', error: `The message for ${to} has ${bytes.length} bytes; the limit is ${maxBytes}.` }
}

function sentOf(answer: Reply | ToolError | undefined): Sent {
  if (!ToolError.is(answer)) return { kind: 'sent' }
  const error = answer.retryable ? answer.message : `${answer.message} Redis answered ${String(answer.details?.reply)}.`
  return { kind: answer.retryable ? 'again' : 'never', error }
}

/** A record as a hash with a time to live. */
interface TaskHash {
  readonly key: string
  /** One of the fields is `status`. */
  readonly fields: { readonly [name: string]: string }
  readonly ttlMs: number
}

/**
 * Stores the records of background tasks as hashes. Each command touches one key, so that it works on any server of a
 * cluster; `status` distinguishes a record that begins from one that has ended.
 * - Errors: STORE_UNAVAILABLE, not retryable when the key has another type.
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
    /** Begins a record, unless it exists; resolves with whether it did. A partly written record is written again. */
    async open(task: TaskHash): Promise<boolean> {
      const { key, fields } = task
      const { status = 'running' } = fields
      const isNew = (await redis.call(['HSETNX', key, 'status', status])) === 1
      const found = isNew ? status : String(await redis.call(['HGET', key, 'status']))
      if (found !== status) return false
      await write(task)
      return true
    },
    /** Completes a record; does not create one. */
    async close(task: TaskHash): Promise<void> {
      if ((await redis.call(['EXISTS', task.key])) === 1) await write(task)
    },
    async drop(key: string): Promise<void> {
      await redis.call(['DEL', key])
    },
  }
}
