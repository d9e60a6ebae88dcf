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
    settings,
    takes,
    name: 'test',
    identity,
    secrets: undefined,
    say: (line: string) => void said.push(line),
  })
  t.after(() => brokers.close())
  return { brokers, said }
}

/** Whether a reply may go to this stream. */
function mayReplyTo({ codecs }: Brokers, to: string): boolean {
  const envelope = { reply_to: to, tool_name: 'x', ctx: { trace_id: 't' } }
  const message = { bytes: encode(envelope), headers: new Map(), source: 'calls', position: '1-0' }
  const decoded = codecs.get('stargazer')?.decode(message)
  return decoded?.kind === 'call' && decoded.address?.to === to
}

test('replies may go to the streams that the settings name, with * as a wildcard', async (t) => {
  const replies = ['exact', 'a:*', '*:z', 'p:*:q:*:r', 'x*x', 'dots.and[sets]?']
  const { brokers } = await open(t, { redis: { stream: freshKey(), replies } })
  for (const to of ['exact', 'a:', 'a:b', 'b:z', 'p:1:q:2:r', 'p::q::r', 'xx', 'x-x', 'dots.and[sets]?']) {
    assert.ok(mayReplyTo(brokers, to), to)
  }
  for (const to of ['exac', 'exactly', 'ba:', 'z', 'p:1:r', 'p:q:r', 'x', 'dotsXandsX', 'sg:stream:tools:replies:1']) {
    assert.ok(!mayReplyTo(brokers, to), to)
  }
})

test('replies never go to the streams of calls, dead letters or messages, whatever the settings allow', async (t) => {
  const names = { stream: freshKey(), deadLetters: 'dead', messages: 'messages' }
  const { brokers } = await open(t, { redis: { ...names, replies: ['*'] } })
  assert.ok(mayReplyTo(brokers, 'anything'))
  for (const to of Object.values(names)) assert.ok(!mayReplyTo(brokers, to), to)
})

test('a process that consumes nothing has no source but can reply; one without a broker transport has only Redis', async (t) => {
  const answering = await open(t, { redis: { stream: freshKey() } }, false)
  assert.deepEqual([answering.brokers.sources.length, [...answering.brokers.publishers.keys()]], [0, ['redis']])
  const plain = await open(t, { transport: 'postgres' })
  assert.deepEqual([plain.brokers.sources.length, plain.brokers.publishers.size, plain.brokers.codecs.size], [0, 0, 0])
  assert.notEqual(plain.brokers.redis, undefined)
})

test('the log line about Redis has no password', async (t) => {
  const { password, port } = await file.server(t)
  const { said } = await open(t, { redis: { stream: freshKey() } })
  assert.deepEqual(said, [`connecting to Redis at 127.0.0.1:${port}`])
  assert.ok(!said.join().includes(password))
})

test('an unreadable authority file or secret for Kafka is reported with its setting', async (t) => {
  const kafka = { kafkaBrokers: ['127.0.0.1:1'], transport: 'kafka' }
  const wrongFile = open(t, { ...kafka, kafka: { caFile: '/nowhere/ca.pem' } })
  await assert.rejects(wrongFile, { code: 'CONFIG_INVALID', message: /\/nowhere\/ca\.pem of \/kafka\/caFile/ })
  const sasl = { saslMechanism: 'PLAIN', username: 'u', password: 'secret:KAFKA' }
  await assert.rejects(open(t, { ...kafka, kafka: sasl }), { code: 'SECRET_UNAVAILABLE', message: /\/kafka\/password/ })
})
