import { randomUUID } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestContext } from 'node:test'
import type { Identity, JsonObject } from '@gantry/contract'
import { Consumer, Producer } from '@platformatic/kafka'
import type { KafkaServer } from '../../../scripts/engines/kafka.ts'
import { openBrokers } from '../src/brokers/open-brokers.ts'
import type { LoadedConfig } from '../src/config/config.ts'
import { serviceSettings, workerName } from '../src/config/service-settings.ts'
import { createSnapshot } from '../src/config/snapshots.ts'
import { createBus } from '../src/observe/bus.ts'
import { createLog, logEvents } from '../src/observe/logs.ts'
import { startService } from '../src/serve/start.ts'
import { folderArtifacts } from '../src/storage/artifacts/folder.ts'
import { eventually, type Heard } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { loadedConfig } from './service-site.fixture.ts'

/** The identity of calls over Kafka. */
export const log: Identity = { principal: 'log', tenant: 'red', permissions: [] }
export const [jobs, results, dead, outbound] = [
  'somastack.tools',
  'somastack.tool_results',
  'somastack.tools.dlq',
  'conversation.outbound',
]
export const others = ['orders', 'payments']
export const topics = [jobs, results, dead, outbound, ...others]

export type KafkaSite = Awaited<ReturnType<typeof openKafkaSite>>

/** A service that consumes calls from Kafka, and a gateway on the same Kafka. */
export async function openKafkaSite(
  t: TestContext,
  kafka: KafkaServer,
  options: LoadedConfig['options'] & Required<Pick<LoadedConfig['options'], 'secrets'>>,
  how: JsonObject = {},
) {
  const ends: (() => Promise<unknown>)[] = []
  t.after(async () => {
    for (const end of ends.reverse()) await end()
  })
  const database = await pgliteDatabase(t)
  const data = mkdtempSync(join(tmpdir(), 'gantry-kafka-'))
  t.after(() => rmSync(data, { recursive: true, force: true }))
  const settings = serviceSettings(
    {
      transport: 'kafka',
      kafkaBrokers: [kafka.brokers],
      kafka: { identity: { principal: log.principal, tenant: log.tenant, permissions: [] }, ...how },
    },
    data,
  )
  const lines: string[] = []
  const bus = createBus()
  logEvents(bus, createLog('debug', { write: (line) => void lines.push(line) }))
  const loaded = loadedConfig(settings, options)
  const name = workerName()
  const brokers = await openBrokers({
    settings: settings.brokers,
    takes: true,
    name,
    identity: log,
    secrets: options.secrets,
    say: () => undefined,
  })
  ends.push(() => brokers.close())
  const running = await startService({
    settings,
    database,
    bus,
    brokers,
    name,
    files: folderArtifacts({ folder: join(data, 'artifacts') }),
    snapshot: async (additions) => createSnapshot(loaded, additions, bus),
    callbackKey: async () => undefined,
  })
  ends.push(() => running.stop(5_000))
  const client = { clientId: 'gateway', bootstrapBrokers: [kafka.brokers] }
  const producer = new Producer(client)
  const consumer = new Consumer({ ...client, groupId: randomUUID() })
  ends.push(() => Promise.all([producer.close(), consumer.close(true)]))
  const heard: { readonly topic: string; readonly text: string; readonly value: Heard }[] = []
  const stream = await consumer.consume({
    topics: [results, dead, outbound, ...others],
    mode: 'earliest',
    maxWaitTime: 100,
  })
  stream.on('data', ({ topic, value, headers }) => {
    const text = Buffer.from(value ?? '').toString()
    heard.push({ topic, text: text + [...headers].join(), value: text.startsWith('{') ? JSON.parse(text) : text })
  })
  const sendBytes = async (bytes: string, headers: { readonly [name: string]: string } = {}): Promise<void> => {
    const named = new Map(Object.entries(headers).map(([key, value]) => [Buffer.from(key), Buffer.from(value)]))
    await producer.send({ acks: -1, messages: [{ topic: jobs, value: Buffer.from(bytes), headers: named }] })
  }
  const answersTo = (id: string, count = 1): Promise<readonly Heard[]> =>
    eventually(async () => {
      const those = heard
        .filter(({ topic, value }) => topic === results && idOf(value) === id)
        .map(({ value }) => value)
      return those.length < count ? undefined : those
    }, `${count} answers to ${id}`)
  return {
    database,
    lines,
    heard,
    sendBytes,
    answersTo,
    service: running.service,
    /** Sends a SomaStack event, and resolves with its reply. */
    async event(members: object = {}, headers: { readonly [name: string]: string } = {}): Promise<Heard> {
      const event_id = randomUUID()
      const usual = { session_id: 's', tool_name: 'test:note', args: {}, metadata: {} }
      await sendBytes(JSON.stringify({ event_id, ...usual, ...members }), headers)
      return (await answersTo((members as { event_id?: string }).event_id ?? event_id))[0]
    },
    async native(members: object = {}): Promise<Heard> {
      const correlationId = randomUUID()
      await sendBytes(JSON.stringify({ tool: 'test:note', args: {}, correlationId, ...members }))
      return (await answersTo((members as { correlationId?: string }).correlationId ?? correlationId))[0]
    },
    deadLetters: async (): Promise<number> =>
      Number((await database.query<{ n: number }>('select count(*)::int as n from gantry.dead_letters'))[0]?.n),
  }
}

/** The id of the request that a reply answers. */
function idOf(value: Heard): string | undefined {
  return value.correlationId ?? value.metadata?.request_id
}

export function codeOf(answer: Heard): string | undefined {
  return answer.error?.code ?? answer.result?.error?.code ?? answer.payload?.error?.code
}
