import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { Consumer, Producer } from '@platformatic/kafka'
import { result, traceparent } from '../../packages/service/src/brokers/codecs/codec.fixture.ts'
import { somastackCodec } from '../../packages/service/src/brokers/codecs/somastack.ts'
import { type KafkaServer, startKafka } from '../../scripts/engines/kafka.ts'
import { pythonJson } from './python-json.ts'
import { somastackGateway } from './somastack.ts'

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
const codec = somastackCodec({ tenant: 'acme' })

test('pythonJson writes JSON as Python’s json.dumps does', () => {
  assert.equal(pythonJson({ a: [1, 'ü"', null], b: {}, c: undefined }), '{"a": [1, "ü\\"", null], "b": {}}')
})

test('a SomaStack gateway receives all results of a thousand concurrent requests', { skip: missing }, async (t) => {
  const brokers = engine?.brokers ?? ''
  await engine?.createTopics(['somastack.tools', 'somastack.tool_results'], 2)
  const client = { clientId: 'echo', bootstrapBrokers: [brokers] }
  const producer = new Producer(client)
  const consumer = new Consumer({ ...client, groupId: 'tool-executor' })
  const stream = await consumer.consume({ topics: ['somastack.tools'], mode: 'earliest', maxWaitTime: 200 })
  /** A minimal responder: answers each event with its arguments, or with an error. */
  stream.on('data', ({ value: bytes, headers, topic, partition, offset }) => {
    const texts = new Map([...headers].map(([name, text]) => [String(name), text]))
    const decoded = codec.decode({ bytes, headers: texts, source: topic, position: `${partition}/${offset}` })
    if (decoded.address === undefined) return
    const reply =
      decoded.kind === 'call'
        ? ({
            kind: 'ended',
            result: result({ output: { args: decoded.input.args as object } as never }),
            files: [],
          } as const)
        : ({ kind: 'refused', error: decoded.error ?? new ToolError('INTERNAL', 'No.') } as const)
    const out = codec.reply(decoded.address, reply, new Date())
    const named = Object.entries(out.headers ?? {}).map(
      ([name, text]) => [Buffer.from(name), Buffer.from(text)] as const,
    )
    const message = { topic: out.to, value: Buffer.from(out.bytes), headers: new Map(named) }
    producer.send({ messages: [message], acks: -1 }).catch(() => undefined)
  })
  const ledger = { sent: 0, results: 0, unawaited: 0 }
  const gateway = await somastackGateway({
    brokers,
    onSent: () => ledger.sent++,
    onResult: (_result, awaited) => {
      ledger.results++
      if (!awaited) ledger.unawaited++
    },
  })
  t.after(async () => {
    await gateway.close()
    await Promise.all([consumer.close(true), producer.close()])
  })
  const results = await Promise.all(Array.from({ length: 1_000 }, (_, n) => gateway.call('echo', { n })))
  for (const [n, { payload, status }] of results.entries()) {
    assert.deepEqual([payload, status], [{ args: { n } }, 'success'])
  }
  assert.deepEqual(ledger, { sent: 1_000, results: 1_000, unawaited: 0 })
  assert.equal(new Set(results.map(({ event_id }) => event_id)).size, 1_000)

  const [first] = results
  assert.deepEqual(
    [first?.headers.tenant_id, first?.metadata.tenant],
    ['acme', 'acme'],
    'ours, not what the gateway says',
  )
  assert.equal(first?.headers.correlation_id, first?.metadata.request_id)
  const traced = await gateway.call('echo', {}, { traceparent })
  assert.deepEqual(traced.trace_context, { traceparent })
  const wrong = await gateway.call('echo', {}, { extra: { args: 'no object' } })
  assert.equal(wrong.status, 'error')
  assert.equal((wrong.payload.error as { code: string }).code, 'PAYLOAD_INVALID')
})
