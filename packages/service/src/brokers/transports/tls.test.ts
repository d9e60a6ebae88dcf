import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, describe, test } from 'node:test'
import { type Authority, type Certificate, makeAuthority } from '../../../../../scripts/engines/certificates.ts'
import { type KafkaServer, startKafka } from '../../../../../scripts/engines/kafka.ts'
import { hasProgram } from '../../../../../scripts/engines/packages.ts'
import { type RedisServer, startRedis } from '../../../../../scripts/engines/redis.ts'
import { failure } from '../../conformance/database.ts'
import { type KafkaConnection, kafkaPublisher } from './kafka.ts'
import { openRedis } from './redis/connection.ts'
import type { Sent } from './transport.ts'

let [ours, theirs]: Authority[] = []
before(() => {
  ours = makeAuthority()
  theirs = makeAuthority('Another authority')
})
after(() => {
  ours?.remove()
  theirs?.remove()
})

/** A certificate and its key, as connections accept it. */
function as({ certFile, keyFile }: Certificate): { readonly cert: string; readonly key: string } {
  return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') }
}

function present<T>(value: T | undefined): T {
  assert.ok(value !== undefined)
  return value
}

const javaless = { skip: !hasJava() && process.env.GANTRY_ENGINES !== 'required' && 'Java is not installed' }
const redisless = { skip: !hasProgram('redis-server') && process.env.GANTRY_ENGINES !== 'required' && 'no Redis' }

function hasJava(): boolean {
  return spawnSync('java', ['-version'], { stdio: 'ignore' }).status === 0
}

describe('Redis over TLS', redisless, () => {
  let server: RedisServer
  let strict: RedisServer
  before(async () => {
    const ca = present(ours)
    server = await startRedis({ tls: ca.issue({ hosts: ['127.0.0.1'] }) })
    strict = await startRedis({ tls: { ...ca.issue(), clientCaFile: ca.caFile } })
  })
  after(() => Promise.all([server.stop(), strict.stop()]))

  test('a server with a certificate of the authority is reached, by commands and subscriptions', async () => {
    const redis = await openRedis({ url: present(server.secureUrl), tls: { ca: present(ours).ca } })
    assert.equal(String(await redis.call(['PING'])), 'PONG')
    const received = Promise.withResolvers<string>()
    const leave = await redis.subscribe('news', (text) => received.resolve(String(text)))
    await redis.call(['PUBLISH', 'news', 'here'])
    assert.equal(await received.promise, 'here')
    await leave()
    await redis.close()
  })

  test('a certificate of another authority, an authority unknown to the system, or another host name is refused', async () => {
    const elsewhere = present(server.secureUrl).replace('127.0.0.1', 'localhost')
    const wrong = [
      { url: present(server.secureUrl), tls: { ca: present(theirs).ca } },
      { url: present(server.secureUrl) },
      { url: elsewhere, tls: { ca: present(ours).ca } },
    ]
    for (const options of wrong) {
      const error = await failure(openRedis(options))
      assert.equal(error.code, 'STORE_UNAVAILABLE')
      assert.match(error.message, /certificate/)
    }
  })

  test('a server that requires client certificates accepts only those of its authority', async () => {
    const [url, ca] = [present(strict.secureUrl), present(ours).ca]
    const redis = await openRedis({ url, tls: { ca, ...as(present(ours).issue()) } })
    assert.equal(String(await redis.call(['PING'])), 'PONG')
    await redis.close()
    for (const own of [{}, as(present(theirs).issue())]) {
      assert.equal((await failure(openRedis({ url, tls: { ca, ...own } }))).code, 'STORE_UNAVAILABLE')
    }
  })
})

describe('Kafka over TLS', javaless, () => {
  let server: KafkaServer
  before(async () => {
    const ca = present(ours)
    server = await startKafka({ tls: { ...ca.issue({ hosts: ['127.0.0.1'] }), clientCaFile: ca.caFile } })
    await server.createTopics(['secured'])
  })
  after(() => server.stop())

  const send = async (tls: KafkaConnection['tls'], brokers = present(server.secure)): Promise<Sent | undefined> => {
    const publisher = await kafkaPublisher({
      brokers: [brokers],
      clientId: 'gantry-tls',
      requestTimeoutMs: 4_000,
      ...(tls === undefined ? {} : { tls }),
    })
    const [sent] = await publisher.send([{ to: 'secured', bytes: Buffer.from('x') }], AbortSignal.timeout(30_000))
    await publisher.close()
    return sent
  }

  test('a broker of the authority accepts messages from a client with its certificate', async () => {
    assert.deepEqual(await send({ ca: present(ours).ca, ...as(present(ours).issue()) }), { kind: 'sent' })
  })

  test('a broker of another authority or under another name receives nothing, and the error names the certificate', async () => {
    const own = as(present(ours).issue())
    const wrong: readonly [KafkaConnection['tls'], string?][] = [
      [{ ca: present(theirs).ca, ...own }],
      [own],
      [{ ca: present(ours).ca, ...own }, present(server.secure).replace('127.0.0.1', 'localhost')],
    ]
    for (const [tls, brokers] of wrong) {
      const sent = await send(tls, brokers)
      assert.ok(sent?.kind === 'again')
      assert.match(sent.error, /certificate/)
    }
  })

  test('a broker that requires client certificates accepts nothing from clients of another authority', async () => {
    for (const own of [{}, as(present(theirs).issue())]) {
      assert.equal((await send({ ca: present(ours).ca, ...own }))?.kind, 'again')
    }
  })
})

describe('Kafka over TLS with SCRAM', javaless, () => {
  let server: KafkaServer
  before(async () => {
    server = await startKafka({ tls: present(ours).issue({ hosts: ['127.0.0.1'] }), scram: true })
    await server.createTopics(['secured'])
  })
  after(() => server.stop())

  const send = async (password: string, { ca }: Authority): Promise<Sent | undefined> => {
    const { username } = server.guarded
    const publisher = await kafkaPublisher({
      brokers: [present(server.secure)],
      clientId: 'gantry-scram',
      requestTimeoutMs: 4_000,
      tls: { ca },
      sasl: { mechanism: 'SCRAM-SHA-512', username, password },
    })
    const [sent] = await publisher.send([{ to: 'secured', bytes: Buffer.from('x') }], AbortSignal.timeout(30_000))
    await publisher.close()
    return sent
  }

  test('a broker of the authority accepts messages with the right password, and nothing with a wrong one', async () => {
    assert.deepEqual(await send(server.guarded.password, present(ours)), { kind: 'sent' })
    assert.equal((await send('wrong', present(ours)))?.kind, 'again')
  })

  test('a broker of another authority does not receive the password', async () => {
    const sent = await send(server.guarded.password, present(theirs))
    assert.ok(sent?.kind === 'again')
    assert.match(sent.error, /certificate/)
  })
})
