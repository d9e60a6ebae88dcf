import { ToolError } from '@gantry/contract'
import type { Outgoing, Publisher, Sent } from '../message.ts'
import type { RedisConnections } from './connection.ts'
import type { Command, Reply } from './reply.ts'

export interface RedisPublisherOptions {
  readonly redis: RedisConnections
  /** The field of an entry that holds the message; `data` when absent. */
  readonly field?: string
  /** The largest message that is sent; 16 MiB when absent. */
  readonly maxBytes?: number
  /** About how many of the last messages a stream keeps, read or not; 10,000 when absent, 0 is without limit. */
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
      const answers = await untilAborted(redis.pipeline(small.map(commandOf)), signal)
      const became = new Map(
        small.map((message, at) => [message, answers === undefined ? givenUp : sentOf(answers[at])]),
      )
      return messages.map((message) => became.get(message) ?? tooLarge(message, maxBytes))
    },
    close: async () => undefined,
  }
}

const givenUp: Sent = { kind: 'again', error: 'The sending was given up before Redis answered.' }

function tooLarge({ to, bytes }: Outgoing, maxBytes: number): Sent {
  return { kind: 'never', error: `The message for ${to} has ${bytes.length} bytes; at most ${maxBytes} are sent.` }
}

function sentOf(answer: Reply | ToolError | undefined): Sent {
  if (!ToolError.is(answer)) return { kind: 'sent' }
  const error = answer.retryable ? answer.message : `${answer.message} It said ${String(answer.details?.reply)}.`
  return { kind: answer.retryable ? 'again' : 'never', error }
}

/** Undefined when the signal comes first; the work goes on unheard. */
async function untilAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T | undefined> {
  let abort = (): void => {}
  const aborted = new Promise<undefined>((resolve) => {
    abort = () => resolve(undefined)
    signal.addEventListener('abort', abort, { once: true })
  })
  return Promise.race([work, aborted]).finally(() => signal.removeEventListener('abort', abort))
}
