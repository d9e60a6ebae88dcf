import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { defineTool } from 'gantry'
import { eventually } from '../../packages/service/test/broker-site.fixture.ts'
import { openKafkaSite, topics } from '../../packages/service/test/kafka-site.fixture.ts'
import { type KafkaServer, startKafka } from '../../scripts/engines/kafka.ts'
import { type SomastackEvent, type SomastackResult, somastackGateway } from './somastack.ts'

let engine: KafkaServer | undefined
const missing = await startKafka().then(
  (server) => {
    engine = server
    return false
  },
  (error: Error) => {
    if (process.env.GANTRY_ENGINES === 'required') throw error
    return `Kafka cannot be had: ${error.message}`
  },
)
after(() => engine?.stop())
const about = { namespace: 'jobs', version: '1.0.0', description: 'A job.', inputSchema: { type: 'object' } } as const

test('a SomaStack gateway receives events of the start, progress and end of a call, and of an open circuit', {
  skip: missing,
}, async (t) => {
  const kafka = engine ?? assert.fail()
  await kafka.createTopics(topics)
  const gate = Promise.withResolvers<void>()
  const tools = [
    defineTool({
      ...about,
      name: 'slow',
      effect: 'read',
      async run(_args, { progress }) {
        progress(1, 4, 'one of four')
        await gate.promise
        return { rows: 7 }
      },
    }),
    defineTool({
      ...about,
      name: 'broken',
      effect: 'read',
      run: () => Promise.reject(new Error('No.')),
    }),
  ]
  const secrets = { get: async () => undefined }
  await openKafkaSite(t, kafka, { tools, secrets }, { progressMs: 0 })
  const events: SomastackEvent[] = []
  const results: SomastackResult[] = []
  const gateway = await somastackGateway({
    brokers: kafka.brokers,
    outboundFrom: 'conversation.outbound',
    personaId: 'p-1',
    onEvent: (event) => void events.push(event),
    onResult: (result) => void results.push(result),
  })
  t.after(() => gateway.close())
  const of = (id: string) => events.filter(({ metadata }) => metadata.request_id === id)

  const id = await gateway.send('jobs:slow', {}, { metadata: { turn: 3 } })
  const early = await eventually(async () => (of(id).length === 2 ? of(id) : undefined), 'a start and progress')
  assert.deepEqual(
    early.map(({ type, role, version, message }) => [type, role, version, message]),
    [
      ['tool.start', 'tool', 'sa01-v1', ''],
      ['tool.progress', 'tool', 'sa01-v1', 'one of four'],
    ],
  )
  const [start, progress] = early.map(({ metadata }) => metadata)
  assert.deepEqual([start?.status, start?.tool_name, start?.turn], ['start', 'jobs:slow', 3])
  assert.deepEqual([progress?.status, progress?.progress, progress?.total], ['progress', 1, 4])
  assert.equal(results.length, 0)

  gate.resolve()
  await eventually(async () => (of(id).length === 3 ? true : undefined), 'the end')
  const end = of(id)[2]
  assert.deepEqual([end?.type, end?.message, end?.metadata.status], ['tool.result', '{"rows":7}', 'success'])
  assert.deepEqual(
    results.map(({ status, payload }) => [status, payload]),
    [['success', { rows: 7 }]],
  )
  assert.equal(new Set([...events, ...results].map(({ event_id }) => event_id)).size, 4)

  const failed = await gateway.call('jobs:broken', {})
  assert.equal(failed.status, 'error')
  const request = String(failed.metadata.request_id)
  await eventually(async () => (of(request).length === 2 ? true : undefined), 'the start and the end of the failure')
  assert.deepEqual(
    of(request).map(({ type, metadata }) => [type, metadata.status]),
    [
      ['tool.start', 'start'],
      ['tool.result', 'error'],
    ],
  )

  // Together with the failure above, five failures open the circuit of the tool.
  for (let call = 0; call < 4; call++) assert.equal((await gateway.call('jobs:broken', {})).status, 'error')
  const open = await gateway.call('jobs:broken', {})
  assert.equal(open.status, 'circuit_open')
  const { code, retryable, retryAfterMs } = open.payload.error as { [name: string]: unknown }
  assert.deepEqual([code, retryable], ['CIRCUIT_OPEN', true])
  assert.ok(Number(retryAfterMs) > 0, JSON.stringify(open.payload))
  const last = String(open.metadata.request_id)
  const shown = await eventually(async () => of(last).find(({ type }) => type === 'tool.result'), 'the end')
  assert.equal(shown.metadata.status, 'circuit_open')
})
