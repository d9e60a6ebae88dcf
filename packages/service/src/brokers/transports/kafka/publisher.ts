import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Producer } from '@platformatic/kafka'
import { createBatch } from '../../../storage/batch.ts'
import type { Outgoing, Publisher, Sent } from '../transport.ts'
import {
  clientOptions,
  closeClient,
  createTopic,
  hasApiError,
  isUnknownTopic,
  type KafkaConnection,
  loadLibrary,
  quiet,
  reasonOf,
} from './client.ts'

type BytesProducer = Producer<Buffer, Buffer, string, string>

const sent: Sent = { kind: 'sent' }
const mostInBatch = 500
/** Below the default batch limit of brokers, with space for the framing. */
const mostBytes = 512 * 1024

/**
 * Publishes to Kafka topics: idempotent, acknowledged by all in-sync replicas. Concurrent sends share a batch; one
 * batch is in flight at a time, so that order is kept. A missing topic is created.
 */
export async function kafkaPublisher(connection: KafkaConnection): Promise<Publisher> {
  const library = await loadLibrary()
  const producer: BytesProducer = quiet(
    new library.Producer<Buffer, Buffer, string, string>({
      ...clientOptions(connection),
      idempotent: true,
      // With fewer than two retries an idempotent producer of this library would retry without end.
      retries: 2,
      serializers: { headerKey: bytesOf, headerValue: bytesOf },
    }),
  )
  const produce = async (messages: readonly Outgoing[]): Promise<void> => {
    await producer.send({ messages: messages.map(recordOf) })
  }
  const sendSome = async (messages: readonly Outgoing[]): Promise<readonly Sent[]> => {
    try {
      await produce(messages)
      return messages.map(() => sent)
    } catch (error) {
      if (!isTooLarge(error)) return messages.map(() => ({ kind: 'again', error: reasonOf(error) }))
      if (messages.length === 1) return [never('The message exceeds the size limit of the topic.')]
      // The batch may exceed the limit although no message does.
      const half = messages.length >> 1
      const first = await sendSome(messages.slice(0, half))
      return [...first, ...(await sendSome(messages.slice(half)))]
    }
  }
  const sendTopic = async (topic: string, messages: readonly Outgoing[]): Promise<readonly Sent[]> => {
    if (!isTopicName(topic)) return messages.map(() => never('The topic name is not valid in Kafka.'))
    try {
      await needTopic(topic)
    } catch (error) {
      return messages.map(() => ({ kind: 'again', error: reasonOf(error) }))
    }
    const answers: Sent[] = []
    for (const some of portions(messages)) answers.push(...(await sendSome(some)))
    return answers
  }
  const needTopic = async (topic: string): Promise<void> => {
    try {
      await producer.metadata({ topics: [topic], retries: 0 })
    } catch (error) {
      if (!isUnknownTopic(error)) throw error
      await createTopic(library, connection, topic)
    }
  }
  const batch = createBatch<Outgoing, Sent>(
    async (messages) => {
      const answers = new Map<Outgoing, Sent>()
      const topics = Map.groupBy(messages, ({ to }) => to)
      await Promise.all(
        [...topics].map(async ([topic, ofTopic]) => {
          const some = await sendTopic(topic, ofTopic)
          ofTopic.forEach((message, index) => {
            const answer = some[index]
            if (answer !== undefined) answers.set(message, answer)
          })
        }),
      )
      return messages.map((message) => answers.get(message) ?? { kind: 'again', error: 'Kafka did not answer.' })
    },
    { most: mostInBatch },
  )
  return {
    async send(messages, signal) {
      const answers: Sent[] = messages.map(() => ({ kind: 'again', error: 'Kafka did not answer in time.' }))
      const all = messages.map(async (message, index) => {
        answers[index] = await batch.add({ ...message })
      })
      await orAborted(Promise.all(all), signal)
      return [...answers]
    },
    close: () => closeClient(producer),
  }
}

/** After its timeout a send resolves with `again`, whether the message arrives or not. */
async function orAborted(work: Promise<unknown>, signal: AbortSignal): Promise<void> {
  const given = Promise.withResolvers<void>()
  const unlisten = onAbort(signal, given.resolve)
  try {
    await Promise.race([work, given.promise])
  } finally {
    unlisten()
  }
}

function bytesOf(text?: string): Buffer {
  return Buffer.from(text ?? '')
}

function recordOf({ to, bytes, key, headers = {} }: Outgoing) {
  const value = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const record = { topic: to, value, headers: new Map(Object.entries(headers)) }
  return key === undefined ? record : { ...record, key: Buffer.from(key) }
}

function never(error: string): Sent {
  return { kind: 'never', error }
}

function isTooLarge(error: unknown): boolean {
  return hasApiError(error, 'MESSAGE_TOO_LARGE', 'RECORD_LIST_TOO_LARGE')
}

function isTopicName(name: string): boolean {
  return /^[\w.-]{1,249}$/.test(name) && name !== '.' && name !== '..'
}

/** In order; each small enough for one batch, or a single message that is not. */
function* portions(messages: readonly Outgoing[]): Generator<readonly Outgoing[]> {
  let some: Outgoing[] = []
  let bytes = 0
  for (const message of messages) {
    const size = message.bytes.byteLength + 256
    if (some.length > 0 && bytes + size > mostBytes) {
      yield some
      some = []
      bytes = 0
    }
    some.push(message)
    bytes += size
  }
  if (some.length > 0) yield some
}
