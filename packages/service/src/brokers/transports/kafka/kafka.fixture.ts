import { randomBytes } from 'node:crypto'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Admin, Producer } from '@platformatic/kafka'
import { type KafkaServer, startKafka } from '../../../../../../scripts/engines/kafka.ts'
import type { KafkaTransportOptions } from '../kafka.ts'
import type { Delivery, Transport } from '../transport.ts'

/** A server for the tests of one file, or the reason why there is none. */
export async function kafkaServer(): Promise<KafkaServer | string> {
  try {
    return await startKafka({ settings: { 'message.max.bytes': 2_000_000 } })
  } catch (error) {
    if (process.env.GANTRY_ENGINES === 'required') throw error
    return `Kafka is not available: ${(error as Error).message}`
  }
}

/** A topic and a group of their own, and how to inspect both. */
export interface Place {
  readonly topic: string
  readonly options: KafkaTransportOptions
  /** Sends messages, each with its name as its value. */
  send(names: readonly string[], partition?: (index: number) => number): Promise<void>
  /** The committed offset of each partition. */
  marks(): Promise<readonly number[]>
  /** The members of the group by client name, with their partitions; undefined during a rebalance. */
  members(): Promise<ReadonlyMap<string, readonly number[]> | undefined>
  close(): Promise<void>
}

export async function newPlace(server: KafkaServer, partitions: number): Promise<Place> {
  const topic = `t-${randomBytes(6).toString('hex')}`
  const group = `g-${topic}`
  await server.createTopics([topic], partitions)
  const client = { clientId: 'test', bootstrapBrokers: [server.brokers], retries: 50, retryDelay: 100 }
  const admin = new Admin(client)
  // Idempotent, because a retry after one partition failed sends the messages of every partition again.
  const producer = new Producer({ ...client, idempotent: true })
  return {
    topic,
    options: { brokers: [server.brokers], clientId: 'one', group, topics: [topic], sessionTimeoutMs: 3_000 },
    async send(names, partition = () => 0) {
      const messages = names.map((name, index) => ({ topic, value: Buffer.from(name), partition: partition(index) }))
      await producer.send({ messages, acks: -1 })
    },
    async marks() {
      const [found] = await admin.listConsumerGroupOffsets({ groups: [group] })
      const marks = Array.from({ length: partitions }, () => -1)
      for (const one of found?.topics.find(({ name }) => name === topic)?.partitions ?? []) {
        marks[one.partitionIndex] = Number(one.committedOffset)
      }
      return marks
    },
    async members() {
      const found = (await admin.describeGroups({ groups: [group] })).get(group)
      if (found === undefined || !/^stable$/i.test(found.state)) return undefined
      return new Map(
        [...found.members.values()].map((one) => [one.clientId, one.assignments?.get(topic)?.partitions ?? []]),
      )
    },
    async close() {
      await Promise.all([admin.close(), producer.close()])
    },
  }
}

/** Repeats the question until it has an answer; the timeout of the test ends the wait. */
export async function until<T>(ask: () => Promise<T | undefined | false>): Promise<T> {
  for (;;) {
    const answer = await ask()
    if (answer !== undefined && answer !== false) return answer
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}

export function nameOf({ body }: Delivery): string {
  return body.kind === 'message' ? Buffer.from(body.message.bytes).toString() : ''
}

export async function take(transport: Transport, count: number): Promise<Delivery[]> {
  const never = new AbortController().signal
  const taken: Delivery[] = []
  while (taken.length < count) {
    const more = await transport.receive(count - taken.length, never)
    if (more.length === 0) throw new Error('The transport was closed.')
    taken.push(...more)
  }
  return taken
}

/** Counts the fetches of a group on the diagnostics channel of the library. */
export function countFetches(group: string): { readonly count: number; stop(): void } {
  const channel = 'tracing:plt:kafka:consumer:fetches:start'
  let count = 0
  const listener = (about: unknown): void => {
    if ((about as { readonly client?: { readonly groupId?: string } }).client?.groupId === group) count += 1
  }
  subscribe(channel, listener)
  return {
    get count() {
      return count
    },
    stop: () => unsubscribe(channel, listener),
  }
}
