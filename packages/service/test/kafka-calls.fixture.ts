import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { TestContext } from 'node:test'
import type { Identity } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { Consumer, Producer } from '@platformatic/kafka'
import type { KafkaServer } from '../../../scripts/engines/kafka.ts'
import { eventually, type Heard } from './broker-site.fixture.ts'
import { startCollector } from './collector.fixture.ts'
import { codeOf, jobs, log, openKafkaSite, results } from './kafka-site.fixture.ts'
import { canary, ofCall, ofSandbox, ofTask, pathsOf, place, stages, startTraced } from './tracing.fixture.ts'

const secrets = { get: async () => undefined }
const about = { namespace: 'test', version: '1.0.0', description: 'A tool.', inputSchema: { type: 'object' } } as const

function toolsOf(ran: string[]) {
  const tool = (name: string) =>
    defineTool({ ...about, name, effect: 'once', run: (args) => ran.push(`${name} ${JSON.stringify(args)}`) })
  return [tool('pay'), tool('secret')]
}

/** The Kafka variants of tests that other files run over HTTP and Redis; they share one server. */
export const kafkaCallTests: { readonly [name: string]: (t: TestContext, kafka: KafkaServer) => Promise<void> } = {
  async 'a call over Kafka that needs approval gets its reply once a person has decided'(t, kafka) {
    const ran: string[] = []
    const policy = { rules: [{ allow: '*' }, { ask: 'test:pay' }] }
    const site = await openKafkaSite(t, kafka, { tools: toolsOf(ran), policy, secrets })
    const bob: Identity = { principal: 'bob', tenant: 'red', permissions: ['gantry:approve'] }
    const { approvals } = site.service
    const question = (n: number) =>
      eventually(async () => {
        for (const { id } of (await approvals.list({}, bob)).items) {
          const { args, principal } = await approvals.get(id, bob)
          if (JSON.stringify(args) === JSON.stringify({ n })) return { id, principal }
        }
        return undefined
      }, `a question about ${n}`)
    const [yes, no] = [site.native({ tool: 'test:pay', args: { n: 1 } }), site.event({ ...pay, args: { n: 2 } })]
    const [first, second] = [await question(1), await question(2)]
    assert.deepEqual([first.principal, second.principal, ran], ['log', 'log', []])
    // The sender cannot approve its own call, whatever its messages claim.
    await assert.rejects(approvals.decide(first.id, { decision: 'approve' }, { ...log, permissions: ['*'] }), {
      code: 'DENIED',
    })
    const eve: Identity = { ...bob, tenant: 'blue' }
    await assert.rejects(approvals.decide(first.id, { decision: 'approve' }, eve), { code: 'NOT_FOUND' })
    await approvals.decide(second.id, { decision: 'deny', reason: 'too much' }, bob)
    const denied = await no
    assert.deepEqual([codeOf(denied), ran], ['DENIED', []])
    await approvals.decide(first.id, { decision: 'approve' }, bob)
    assert.equal((await yes).result.output, 1)
    assert.deepEqual(ran, ['pay {"n":1}'])
    // The approval covers these arguments only, with or without the same idempotency key.
    const keyed = { tool: 'test:pay', idempotencyKey: 'k' }
    const five = site.native({ ...keyed, args: { n: 5 } })
    await approvals.decide((await question(5)).id, { decision: 'approve' }, bob)
    assert.equal((await five).result.output, 2)
    assert.equal(codeOf(await site.native({ ...keyed, args: { n: 5_000 } })), 'IDEMPOTENCY_CONFLICT')
    const more = site.native({ tool: 'test:pay', args: { n: 5_000 } })
    await approvals.decide((await question(5_000)).id, { decision: 'deny' }, bob)
    assert.equal(codeOf(await more), 'DENIED')
    assert.equal(ran.length, 2)
  },

  async 'over Kafka the reply for a hidden tool equals that for an unknown one, byte for byte'(t, kafka) {
    const ran: string[] = []
    let hides = true
    const policy = {
      decide: () => ({ effect: 'allow' }) as const,
      exists: (_who: Identity, { name }: { readonly name: string }) => !hides || name !== 'secret',
    }
    const site = await openKafkaSite(t, kafka, { tools: toolsOf(ran), policy, secrets })
    const ways: ((tool: string) => Promise<readonly [string, Heard]>)[] = [
      ...[{}, { args: 5 }, { schemaDigest: '0'.repeat(64) }].map((given) => async (tool: string) => {
        const correlationId = randomUUID()
        return [correlationId, await site.native({ tool, correlationId, ...given })] as const
      }),
      async (tool_name) => {
        const event_id = randomUUID()
        return [event_id, await site.event({ event_id, tool_name })] as const
      },
      async (tool) => {
        const correlationId = randomUUID()
        const steps = [{ id: 'one', tool, args: {} }]
        return [correlationId, await site.native({ tool: undefined, args: undefined, steps, correlationId })] as const
      },
    ]
    /** The reply as it was written, without its own ids and times. */
    const answerOf = async (way: (typeof ways)[number], tool: string): Promise<string> => {
      const [id, answer] = await way(tool)
      const text = site.heard.find(({ value }) => value === answer)?.text ?? assert.fail()
      return masked(text.replaceAll(tool, 'NAME').replaceAll(id, 'ID'))
    }
    for (const [index, way] of ways.entries()) {
      for (const form of ['', ':1.0.0', ':^9']) {
        const absent = await answerOf(way, `test:xxxxxx${form}`)
        assert.equal(await answerOf(way, `test:secret${form}`), absent, `${index} ${form}`)
        assert.match(absent, /TOOL_NOT_FOUND|PAYLOAD_INVALID/, `${index} ${form}`)
      }
    }
    assert.deepEqual(ran, [])
    hides = false
    for (const [index, way] of ways.entries()) {
      const there = await answerOf(way, 'test:secret')
      assert.doesNotMatch(there, /TOOL_NOT_FOUND/, String(index))
    }
    assert.equal(ran.length, 3, 'the control: it is there for whom it is not hidden')
  },

  async 'a message over Kafka belongs to the trace that it names, through every stage'(t, kafka) {
    const collector = await startCollector(t)
    const environment = { KAFKA_BROKERS: kafka.brokers, GANTRY_TRANSPORT: 'kafka' }
    const service = await startTraced(t, { endpoint: collector.url }, environment)
    await service.ready
    const producer = new Producer({ clientId: 'traced', bootstrapBrokers: [kafka.brokers] })
    t.after(() => producer.close())
    const [member, header, event] = [place(), place(), place()]
    const ids = [member, header, event].map(({ traceId }) => traceId)
    const boxed = { tool: 'test:boxed', args: { word: canary }, replyTo: results }
    const soma = { event_id: event.traceId, session_id: 's', tool_name: 'test:boxed', args: { word: canary } }
    const send = (message: object, headers: { readonly [name: string]: string } = {}) => ({
      topic: jobs,
      value: Buffer.from(JSON.stringify(message)),
      headers: new Map(Object.entries(headers).map(([key, value]) => [Buffer.from(key), Buffer.from(value)])),
    })
    await producer.send({
      acks: -1,
      messages: [
        send({ ...boxed, correlationId: member.traceId, traceparent: member.traceparent }),
        send({ ...boxed, correlationId: header.traceId }, { traceparent: header.traceparent }),
        send({ ...soma, metadata: {}, trace_context: { traceparent: event.traceparent } }),
      ],
    })
    const answers = await answersTo(t, kafka, ids)
    for (const answer of answers) assert.equal(codeOf(answer), undefined, JSON.stringify(answer))
    for (const { traceId, spanId } of [member, header, event]) {
      const spans = await collector.trace(traceId, ['gantry.submit', 'gantry.task', ...ofTask, ...ofCall, ...ofSandbox])
      const submit = spans.find(({ name }) => name === 'gantry.submit')
      assert.deepEqual([submit?.parentSpanId, submit?.kind, submit?.facts['gantry.door']], [spanId, 5, 'kafka'])
      const task = 'gantry.submit > gantry.task'
      const call = `${task} > task.execute > gantry.call`
      assert.deepEqual(pathsOf(spans, 'task.queue', ...handled.map((stage) => `task.${stage}`), 'sandbox.run'), [
        'gantry.submit > task.queue',
        ...handled.map((stage) => `${task} > task.${stage}`),
        `${call} > call.execute > call.attempt > sandbox > sandbox.run`,
      ])
      const called = stages.map((stage) => `call.${stage}`)
      assert.deepEqual(
        pathsOf(spans, ...called),
        called.map((stage) => `${call} > ${stage}`),
      )
    }
    assert.equal(await service.stop(), 0)
    assert.doesNotMatch(collector.bodies.join(), new RegExp(canary))
  },
}

const handled = ['consume', 'admit', 'record', 'reply']
const pay = { tool_name: 'test:pay' }

/** Matches ids that the service generates, and times. */
function masked(text: string): string {
  return text
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, 'TIME')
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, 'UUID')
    .replaceAll(/\btimestamp_ms,\d+/g, 'timestamp_ms,0')
    .replaceAll(/"(durationMs|wallMs|execution_time)":[\d.]+/g, '"$1":0')
}

async function answersTo(t: TestContext, kafka: KafkaServer, ids: readonly string[]): Promise<readonly Heard[]> {
  const consumer = new Consumer({ clientId: 'reader', bootstrapBrokers: [kafka.brokers], groupId: randomUUID() })
  const found = new Map<string, Heard>()
  const stream = await consumer.consume({ topics: [results], mode: 'earliest', maxWaitTime: 100 })
  t.after(() => consumer.close(true))
  stream.on('data', ({ value }) => {
    const answer: Heard = JSON.parse(Buffer.from(value ?? '').toString())
    const id = answer.correlationId ?? answer.metadata?.request_id
    if (ids.includes(id)) found.set(id, answer)
  })
  return eventually(async () => (found.size === ids.length ? [...found.values()] : undefined), 'the answers')
}
