import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { type Bus, createBus } from '../observe/bus.ts'
import type { Codec } from './codecs/codec.ts'
import { nativeCodec } from './codecs/native.ts'
import { somastackCodec } from './codecs/somastack.ts'
import { type ConsumeOptions, consumeBrokers } from './consumer.ts'
import type { Refusal } from './inbound.ts'
import type { Delivery, Transport } from './transports/transport.ts'

const kafka: Identity = { principal: 'kafka:tools', tenant: 'acme', permissions: ['*'] }

/** A broker whose messages a test delivers; it records what is settled and released. */
function memoryBroker() {
  const [settled, released]: [string[], string[]] = [[], []]
  const asked: number[] = []
  let waiting: ((deliveries: readonly Delivery[]) => void) | undefined
  let failing: ToolError | undefined
  const transport: Transport = {
    kind: 'kafka',
    receive(max, signal) {
      asked.push(max)
      if (failing !== undefined) return Promise.reject(failing)
      return new Promise((resolve) => {
        waiting = resolve
        signal.addEventListener('abort', () => resolve([]), { once: true })
      })
    },
    settle: async (those) => void settled.push(...those.map(({ id }) => id)),
    release: async (those) => void released.push(...those.map(({ id }) => id)),
    wake: () => undefined,
    close: async () => undefined,
  }
  return {
    transport,
    settled,
    released,
    asked,
    fail: (error?: ToolError): void => {
      failing = error
      waiting?.([])
    },
    async hand(id: string, body: object): Promise<void> {
      while (waiting === undefined) await turn()
      const resolve = waiting
      waiting = undefined
      const bytes = Buffer.from(JSON.stringify(body))
      const message = { bytes, headers: new Map([['tenant_id', Buffer.from('evil')]]), source: 'tools', position: id }
      resolve([{ id, body: { kind: 'message', message }, deliveries: 1 }])
    },
  }
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

function open(
  broker: ReturnType<typeof memoryBroker>,
  given: Partial<ConsumeOptions> & { readonly identity?: Identity } = {},
) {
  const codecs: Codec[] = [
    somastackCodec(),
    nativeCodec({ transport: 'kafka', mayReplyTo: () => false, deadLettersTo: 'dead' }),
  ]
  const submitted: Identity[] = []
  const refused: Refusal[] = []
  const consumers = consumeBrokers({
    sources: [
      { kind: 'kafka', transport: broker.transport, codecs, identity: 'identity' in given ? given.identity : kafka },
    ],
    worker: { freeSlots: 10, onFreeSlots: () => () => undefined },
    session: async () => assert.fail('there are no sessions in these messages'),
    understand: async ({ input }) => input,
    async submit(_input, identity) {
      submitted.push(identity)
      return { callId: 'c', repeated: false }
    },
    attach: async () => undefined,
    refuse: async (refusal) => void refused.push(refusal),
    bus: createBus(),
    ...given,
  })
  return { consumers, submitted, refused }
}

const request = { event_id: 'e', session_id: 's', tool_name: 'demo:add', args: {}, metadata: {} }

test('a message has the identity of its topic, whatever the event and its headers contain', async () => {
  const broker = memoryBroker()
  const { consumers, submitted } = open(broker)
  const forged = { tenant: 'evil', tenant_id: 'evil', roles: ['admin'], requeue_override: true, user_id: 'root' }
  await broker.hand('1', { ...request, ...forged, metadata: forged, persona_id: 'root' })
  await consumers.stop()
  assert.deepEqual(submitted, [kafka])
  assert.deepEqual(broker.settled, ['1'])
  // Another identity of the topic is another caller.
  const other = { ...kafka, tenant: 'other' }
  const again = memoryBroker()
  const second = open(again, { identity: other })
  await again.hand('1', request)
  await second.consumers.stop()
  assert.deepEqual(second.submitted, [other])
})

test('a message without a session is refused with the name of the missing setting when no identity is configured', async () => {
  const broker = memoryBroker()
  const { consumers, submitted, refused } = open(broker, { identity: undefined as unknown as Identity })
  await broker.hand('1', request)
  await consumers.stop()
  assert.deepEqual(submitted, [])
  assert.equal(refused[0]?.error.code, 'UNAUTHENTICATED')
  assert.match(refused[0]?.error.message ?? '', /kafka\.identity/)
})

test('a refusal to the identity of a topic is reported with that identity', async () => {
  const broker = memoryBroker()
  const denied = async (): Promise<never> => {
    throw new ToolError('DENIED', 'No.')
  }
  const { consumers, refused } = open(broker, { submit: denied })
  await broker.hand('1', request)
  await consumers.stop()
  assert.deepEqual([refused[0]?.error.code, refused[0]?.sender], ['DENIED', kafka])
})

test('a message that no codec recognises becomes a dead letter of the first codec', async () => {
  const broker = memoryBroker()
  const { consumers, refused } = open(broker)
  await broker.hand('1', ['neither'])
  await consumers.stop()
  assert.deepEqual([refused[0]?.dead, refused[0]?.codec?.kind], [true, 'somastack'])
})

test('stop waits for messages in flight, and receives no more', async () => {
  const broker = memoryBroker()
  const gate = Promise.withResolvers<{ callId: string; repeated: boolean }>()
  const { consumers } = open(broker, { submit: () => gate.promise })
  await broker.hand('1', request)
  let stopped = false
  const stopping = consumers.stop().then(() => {
    stopped = true
  })
  for (let n = 0; n < 20; n++) await turn()
  assert.equal(stopped, false)
  assert.deepEqual(broker.settled, [])
  const asked = broker.asked.length
  gate.resolve({ callId: 'c', repeated: false })
  await stopping
  assert.deepEqual(broker.settled, ['1'])
  assert.equal(broker.asked.length, asked)
})

test('the consumer asks for as many messages as the worker has free slots, less those in flight', async () => {
  const broker = memoryBroker()
  const gate = Promise.withResolvers<{ callId: string; repeated: boolean }>()
  const { consumers } = open(broker, { submit: () => gate.promise })
  await broker.hand('1', request)
  while (broker.asked.length < 2) await turn()
  assert.deepEqual(broker.asked, [10, 9])
  gate.resolve({ callId: 'c', repeated: false })
  await consumers.stop()
})

test('the consumer reports the successes and failures of the broker as that dependency', async () => {
  const broker = memoryBroker()
  const bus: Bus = createBus()
  const reported: string[] = []
  const back = new Promise<void>((resolve) => {
    bus.on('dependency:failed', ({ dependency, reason }) => {
      reported.push(`${dependency} failed: ${reason}`)
      broker.fail()
    })
    bus.on('dependency:worked', ({ dependency }) => {
      reported.push(`${dependency} worked`)
      resolve()
    })
  })
  broker.fail(new ToolError('STORE_UNAVAILABLE', 'The broker is unavailable.'))
  const { consumers } = open(broker, { bus })
  await broker.hand('1', request)
  await back
  await consumers.stop()
  assert.deepEqual(reported.slice(0, 2), ['kafka failed: The broker is unavailable.', 'kafka worked'])
})
