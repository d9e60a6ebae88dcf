import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { encode } from '@msgpack/msgpack'
import { brokerSettings } from '../config/broker-settings.ts'
import { type Brokers, openBrokers } from './open-brokers.ts'
import { freshKey, redisForFile } from './transports/redis/redis.fixture.ts'

const file = redisForFile()
const identity: Identity = { principal: 'owner', tenant: 'default', permissions: ['*'] }

async function open(t: TestContext, document: object, takes = true): Promise<{ brokers: Brokers; said: string[] }> {
  const { url } = await file.server(t)
  const settings = brokerSettings({ redisUrl: url, transport: 'redis', ...document })
  const said: string[] = []
  const brokers = await openBrokers({
    ...{ settings, takes, name: 'test', identity, secrets: undefined, say: (line: string) => void said.push(line) },
  })
  t.after(() => brokers.close())
  return { brokers, said }
}

/** Whether an answer may go there. */
function mayReplyTo({ codecs }: Brokers, to: string): boolean {
  const envelope = { reply_to: to, tool_name: 'x', ctx: { trace_id: 't' } }
  const message = { bytes: encode(envelope), headers: new Map(), source: 'calls', position: '1-0' }
  const decoded = codecs.get('stargazer')?.decode(message)
  return decoded?.kind === 'call' && decoded.address?.to === to
}

test('answers may go to the streams that the settings name, with * for anything', async (t) => {
  const replies = ['exact', 'a:*', '*:z', 'p:*:q:*:r', 'x*x', 'dots.and[sets]?']
  const { brokers } = await open(t, { redis: { stream: freshKey(), replies } })
  for (const to of ['exact', 'a:', 'a:b', 'b:z', 'p:1:q:2:r', 'p::q::r', 'xx', 'x-x', 'dots.and[sets]?']) {
    assert.ok(mayReplyTo(brokers, to), to)
  }
  for (const to of ['exac', 'exactly', 'ba:', 'z', 'p:1:r', 'p:q:r', 'x', 'dotsXandsX', 'sg:stream:tools:replies:1']) {
    assert.ok(!mayReplyTo(brokers, to), to)
  }
})

test('answers never go among the calls, the dead letters or the messages, whatever the settings say', async (t) => {
  const names = { stream: freshKey(), deadLetters: 'dead', messages: 'messages' }
  const { brokers } = await open(t, { redis: { ...names, replies: ['*'] } })
  assert.ok(mayReplyTo(brokers, 'anything'))
  for (const to of Object.values(names)) assert.ok(!mayReplyTo(brokers, to), to)
})

test('a process that takes nothing has no door, but can answer; one without the transport has only Redis', async (t) => {
  const answering = await open(t, { redis: { stream: freshKey() } }, false)
  assert.deepEqual([answering.brokers.sources.length, [...answering.brokers.publishers.keys()]], [0, ['redis']])
  const plain = await open(t, { transport: 'postgres' })
  assert.deepEqual([plain.brokers.sources.length, plain.brokers.publishers.size, plain.brokers.codecs.size], [0, 0, 0])
  assert.notEqual(plain.brokers.redis, undefined)
})

test('what is said of Redis has no password in it', async (t) => {
  const { password, port } = await file.server(t)
  const { said } = await open(t, { redis: { stream: freshKey() } })
  assert.deepEqual(said, [`connecting to Redis at 127.0.0.1:${port}`])
  assert.ok(!said.join().includes(password))
})

test('a file of authorities or a secret that cannot be had for Kafka is told, and what was opened is closed', async (t) => {
  const kafka = { kafkaBrokers: ['127.0.0.1:1'], transport: 'kafka' }
  const wrongFile = open(t, { ...kafka, kafka: { caFile: '/nowhere/ca.pem' } })
  await assert.rejects(wrongFile, { code: 'CONFIG_INVALID', message: /\/nowhere\/ca\.pem of \/kafka\/caFile/ })
  const sasl = { saslMechanism: 'PLAIN', username: 'u', password: 'secret:KAFKA' }
  await assert.rejects(open(t, { ...kafka, kafka: sasl }), { code: 'SECRET_UNAVAILABLE', message: /\/kafka\/password/ })
})
