import { randomUUID } from 'node:crypto'
import { Admin, Consumer, Producer } from '@platformatic/kafka'
import type { KafkaServer } from '../scripts/engines/kafka.ts'
import { pythonJson } from '../test/gateways/python-json.ts'
import type { BrokerBacklog } from './broker-drain.ts'
import { echoWorkers, gantryWorkers, type Workers } from './broker-workers.ts'

export const partitions = 6
const latest = -1n
const tool = 'demo__add'
const perSend = 1_000

/** How a call is encoded, and how a successful reply is recognised. */
export interface Language {
  readonly request: (n: number, id: string) => string
  readonly isGood: (answer: { readonly [name: string]: unknown }) => boolean
}

export const native: Language = {
  request: (n, id) => JSON.stringify({ tool, args: { a: n, b: 1 }, correlationId: id }),
  isGood: ({ result }) => (result as { readonly status?: unknown } | undefined)?.status === 'ok',
}

/** The format of the SomaStack gateway. */
export const somastack: Language = {
  request: (n, id) =>
    pythonJson({
      event_id: id,
      session_id: 'bench',
      persona_id: null,
      tool_name: tool,
      args: { a: n, b: 1 },
      metadata: { tenant: 'default', request_id: id, source: 'tool_orchestrator' },
      trace_context: {},
    }),
  isGood: ({ status }) => status === 'success',
}

export interface KafkaBacklog extends BrokerBacklog {
  /** Bytes of an answer, as of the last `check`. */
  readonly answerBytes: number
}

/** Calls on a topic, consumed by the service. */
export function kafkaBacklog(server: KafkaServer, language: Language): KafkaBacklog {
  return backlog(server, language, (topics, databaseUrl) =>
    gantryWorkers(databaseUrl, {
      transport: 'kafka',
      kafkaBrokers: [server.brokers],
      kafka: { topic: topics.calls, results: topics.results, group: topics.calls },
    }),
  )
}

/** The same messages, consumed and answered with as many bytes by Kafka's client alone. */
export function echoBacklog(server: KafkaServer, language: Language, bytes: () => number): KafkaBacklog {
  return backlog(server, { ...language, isGood: () => true }, ({ calls, results }) =>
    echoWorkers({ brokers: server.brokers, from: calls, to: results, bytes: bytes() }),
  )
}

interface Topics {
  readonly calls: string
  readonly results: string
}

function backlog(
  server: KafkaServer,
  language: Language,
  start: (topics: Topics, databaseUrl: string) => Promise<Workers>,
): KafkaBacklog {
  const client = { clientId: 'bench', bootstrapBrokers: [server.brokers], retries: 5 }
  let topics: Topics = { calls: '', results: '' }
  let answerBytes = 0
  let admin: Admin | undefined
  return {
    get answerBytes() {
      return answerBytes
    },
    async fill(count) {
      topics = { calls: `bench.${randomUUID()}`, results: `bench.results.${randomUUID()}` }
      await server.createTopics([topics.calls, topics.results], partitions)
      const producer = new Producer(client)
      for (let from = 0; from < count; from += perSend) {
        const messages = Array.from({ length: Math.min(perSend, count - from) }, (_, n) => {
          const id = randomUUID()
          return { topic: topics.calls, key: Buffer.from(id), value: Buffer.from(language.request(from + n, id)) }
        })
        await producer.send({ messages, acks: -1 })
      }
      await producer.close()
      admin = new Admin(client)
    },
    start: (databaseUrl) => start(topics, databaseUrl),
    async done() {
      const asked = Array.from({ length: partitions }, (_, partitionIndex) => ({ partitionIndex, timestamp: latest }))
      const [found] = (await admin?.listOffsets({ topics: [{ name: topics.results, partitions: asked }] })) ?? []
      return (found?.partitions ?? []).reduce((sum, { offset }) => sum + Number(offset), 0)
    },
    async check() {
      await admin?.close()
      const consumer = new Consumer({ ...client, groupId: randomUUID() })
      const stream = await consumer.consume({ topics: [topics.results], mode: 'earliest', autocommit: false })
      for await (const { value } of stream) {
        answerBytes = value.length
        if (!language.isGood(parsed(value))) throw new Error(`a call ended as ${value.subarray(0, 300)}`)
        break
      }
      await consumer.close(true)
    },
  }
}

function parsed(bytes: Buffer): { readonly [name: string]: unknown } {
  try {
    return JSON.parse(String(bytes)) as { readonly [name: string]: unknown }
  } catch {
    return {}
  }
}
