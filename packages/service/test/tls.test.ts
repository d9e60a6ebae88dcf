import assert from 'node:assert/strict'
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
import { request } from 'node:https'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { Producer } from '@platformatic/kafka'
import { Redis } from 'ioredis'
import { makeAuthority } from '../../../scripts/engines/certificates.ts'
import { startKafka } from '../../../scripts/engines/kafka.ts'
import { startPostgres } from '../../../scripts/engines/postgres.ts'
import { startRedis } from '../../../scripts/engines/redis.ts'
import { startS3 } from '../../../scripts/engines/s3.ts'
import { type ServeProcess, serviceFolder, startServe, until } from './serve.fixture.ts'

type Kept = { stop(): Promise<void> }

/** PostgreSQL, Redis, S3 and Kafka with TLS certificates of one authority for 127.0.0.1. */
async function engines(t: TestContext) {
  const authority = makeAuthority()
  t.after(() => authority.remove())
  const tls = { ...authority.issue({ hosts: ['127.0.0.1'] }), ca: authority.ca }
  const keep = async <T extends Kept>(start: Promise<T>): Promise<T> => {
    const server = await start
    t.after(() => server.stop())
    return server
  }
  try {
    const [postgres, redis, s3, kafka] = await Promise.all([
      keep(startPostgres({ tls })),
      keep(startRedis({ tls })),
      keep(startS3({ tls })),
      keep(startKafka({ tls })),
    ])
    return { authority, postgres, redis, s3, kafka }
  } catch (error) {
    if (process.env.GANTRY_ENGINES !== 'required') t.skip((error as Error).message)
    throw error
  }
}

interface Answered {
  readonly status: number | undefined
  readonly serial: string
  // biome-ignore lint/suspicious/noExplicitAny: a test reads it as it expects it
  readonly value: any
}

/** Sends a request over TLS with the key of the folder. */
async function ask(service: ServeProcess, folder: string, ca: string, path: string, body?: object): Promise<Answered> {
  const url = new URL(path, await service.ready)
  const key = readFileSync(join(folder, '.gantry', 'key'), 'utf8').trim()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  return new Promise((resolve, reject) => {
    const method = body === undefined ? 'GET' : 'POST'
    const sent = request(url, { ca, agent: false, method, headers }, (answer) => {
      const { serialNumber } = (answer.socket as TLSSocket).getPeerCertificate()
      let text = ''
      answer.setEncoding('utf8').on('data', (piece: string) => {
        text += piece
      })
      answer.on('end', () =>
        resolve({ status: answer.statusCode, serial: serialNumber, value: text === '' ? {} : JSON.parse(text) }),
      )
    })
    sent.on('error', reject).end(body === undefined ? undefined : JSON.stringify(body))
  })
}

const tool = `
  import { defineTool } from '@gantry/core'
  const made = (name, run) => defineTool({
    namespace: 't', name, version: '1.0.0', description: 'A tool.', inputSchema: { type: 'object' }, effect: 'read', run })
  export default {
    tools: [made('plain', () => ({ ok: true })), made('long', () => ({ text: 'kept in S3 '.repeat(50_000) }))],`

test('a service uses TLS with callers, database, brokers and artifact store', async (t) => {
  const { authority, postgres, redis, s3, kafka } = await engines(t)
  const folder = serviceFolder(t)
  const files = { certFile: join(folder, 'api.pem'), keyFile: join(folder, 'api.key') }
  const place = (): void => {
    const next = authority.issue()
    copyFileSync(next.certFile, files.certFile)
    copyFileSync(next.keyFile, files.keyFile)
  }
  place()
  await kafka.createTopics(['somastack.tools', 'somastack.tool_results', 'somastack.tools.dlq'])
  const identity = { principal: 'sender', tenant: 'default', permissions: [] }
  const settings = (ca: string) => ({
    service: { tls: { certFile: 'api.pem', keyFile: 'api.key' }, inlineBytes: 4_096 },
    databaseUrl: `${postgres.url}?sslmode=verify-full&sslrootcert=${encodeURIComponent(ca)}`,
    transport: ['redis', 'kafka'],
    redisUrl: redis.secureUrl,
    redis: { caFile: ca, identity },
    kafkaBrokers: [kafka.secure],
    kafka: { caFile: ca, identity },
    s3: {
      endpoint: s3.endpoint,
      bucket: s3.bucket,
      region: s3.region,
      forcePathStyle: true,
      caFile: ca,
      accessKeyId: s3.accessKeyId,
      secretAccessKey: s3.secretAccessKey,
    },
  })
  const config = (ca: string): void =>
    writeFileSync(join(folder, 'gantry.config.ts'), `${tool}\n...${JSON.stringify(settings(ca))} }`)

  await t.test('the service does not start when its configured authority did not sign the certificates', async () => {
    const other = makeAuthority('Another authority')
    t.after(() => other.remove())
    config(other.caFile)
    const service = startServe(t, folder)
    assert.equal((await service.ended).code, 5)
    assert.match(service.printed.err, /certificate that is not trusted/)
  })

  config(authority.caFile)
  const service = startServe(t, folder)
  const get = (path: string): Promise<Answered> => ask(service, folder, authority.ca, path)

  await t.test('a call over HTTPS runs, and its artifact is stored in S3', async () => {
    assert.match(await service.ready, /^https:/)
    const call = { tool: 't:long', args: {}, waitMs: 20_000 }
    const { status, value } = await ask(service, folder, authority.ca, '/v1/calls', call)
    assert.deepEqual([status, value.status], [200, 'ok'], JSON.stringify(value).slice(0, 500))
    const { value: link } = await get(`/v1/artifacts/${value.artifacts[0].id}/url`)
    assert.equal(link.signed, true)
    assert.ok(String(link.url).startsWith(s3.endpoint))
  })

  await t.test('calls over Redis and Kafka run', async (own) => {
    const client = new Redis(redis.url)
    const sender = new Producer({ clientId: 'test', bootstrapBrokers: [kafka.brokers] })
    own.after(async () => {
      client.disconnect()
      await sender.close()
    })
    const message = (from: string) => JSON.stringify({ tool: 't:plain', args: { from } })
    await client.xadd('sg:stream:tools', '*', 'data', message('redis'))
    await sender.send({ messages: [{ topic: 'somastack.tools', value: Buffer.from(message('kafka')) }] as never })
    await until(own, async () => {
      const { value } = await get('/v1/calls?tool=t:plain')
      return value.items.filter(({ state }: { state: string }) => state === 'ok').length === 2
    })
  })

  await t.test('the service reloads its own certificate while it runs', async (own) => {
    const before = (await get('/healthz')).serial
    place()
    await until(own, async () => (await get('/healthz')).serial !== before)
    assert.equal(await service.stop(), 0)
  })
})
