import assert from 'node:assert/strict'
import { randomBytes, randomUUID } from 'node:crypto'
import { readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import type { DefinedTool } from '@gantry/core'
import { Consumer, Producer } from '@platformatic/kafka'
import { engineFolder } from '../../../scripts/engines/folder.ts'
import { noBubblewrap } from '../../conformance/src/sandbox-test.ts'
import { kafkaServer } from '../src/brokers/transports/kafka/kafka.fixture.ts'
import { openRedis } from '../src/brokers/transports/redis/connection.ts'
import { redisForFile } from '../src/brokers/transports/redis/redis.fixture.ts'
import type { LoadedConfig } from '../src/config/config.ts'
import { serviceSettings } from '../src/config/service-settings.ts'
import { receiver } from '../src/reply/callback.fixture.ts'
import { serve } from '../src/serve/serve.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { openPglite } from '../src/storage/databases/pglite.ts'
import { eventually } from './broker-site.fixture.ts'
import { createSearch, dumpDatabase, dumpRedis, formsOf, readTree, widthOf } from './canary-search.fixture.ts'
import { boxTool, leakyGrpc, leakyMcp, leakyServer, leakyTools } from './canary-tools.fixture.ts'
import { startCollector } from './collector.fixture.ts'
import { pgliteFolder, postgresDatabase } from './databases.fixture.ts'

const redisFile = redisForFile()
const kafka = await kafkaServer()
after(() => (typeof kafka === 'string' ? undefined : kafka.stop()))
const topics = ['somastack.tools', 'somastack.tool_results', 'somastack.tools.dlq', 'conversation.outbound']
if (typeof kafka !== 'string') await kafka.createTopics(topics, 1)

/** A database engine: the settings that select it, and how to open the database after the service has stopped. */
interface Engine {
  readonly settings: { readonly databaseUrl?: string }
  open(): Promise<Database>
}

const engines: { readonly [name: string]: (t: TestContext, data: string) => Promise<Engine> } = {
  async PGlite(t, data) {
    renameSync(join(await pgliteFolder(t), 'db'), join(data, 'db'))
    return { settings: {}, open: () => openPglite({ folder: data }) }
  },
  async PostgreSQL(t) {
    const { url, database } = await postgresDatabase(t)
    return { settings: { databaseUrl: url }, open: async () => database }
  },
}

/** Encodes differently in URLs, JSON, HTML and base64, and cannot occur by chance: its letters are no hex digits. */
const canary = `cNry/${lettersOnly()}+&"<${lettersOnly().toUpperCase()}~=%hunter2`

function lettersOnly(): string {
  return [...randomBytes(12)].map((byte) => String.fromCharCode(103 + (byte % 20))).join('')
}

test('the search finds a secret in every encoding, and any eleven consecutive characters of it', () => {
  const { find } = createSearch({ canary })
  for (const [form, text] of Object.entries(formsOf(canary))) {
    assert.ok(find(`some ${text} text`).length > 0, form)
    // Every piece of eleven characters, at every offset.
    const cut = 11 * widthOf(form) + widthOf(form) - 1
    for (let at = 0; at + cut <= text.length; at += 1) assert.ok(find(`…${text.slice(at, at + cut)}…`).length > 0, form)
  }
  assert.ok(find(Buffer.concat([Buffer.alloc(7, 255), Buffer.from(canary), Buffer.alloc(7)])).length > 0)
  for (const shift of [0, 1, 2]) {
    assert.ok(find(Buffer.from(`${'-'.repeat(shift)}${canary}`).toString('base64')).length > 0)
  }
  assert.deepEqual(find('an ordinary text about hunters, secrets and canaries, and [redacted]'), [])
})

/** A service with every API, broker and backend, whose tools leak their secret in every way they can. */
async function openSite(t: TestContext, engineOf: (t: TestContext, data: string) => Promise<Engine>) {
  const ends: (() => Promise<unknown>)[] = []
  t.after(async () => {
    for (const end of ends.reverse()) await end()
  })
  const redisServer = await redisFile.server(t)
  if (typeof kafka === 'string') throw new Error(kafka)
  const collector = await startCollector(t)
  // The receiver echoes the request, so that a stored response of it would hold the secret.
  const hooks = await receiver(t, (request, response, count) => {
    response.writeHead(count % 3 === 0 ? 500 : 200).end(JSON.stringify([request.headers, hooks.received.at(-1)?.body]))
  })
  const [web, rpc, used] = [await leakyServer(t), await leakyGrpc(t), [] as string[]]
  const data = engineFolder('canary')
  t.after(() => rmSync(data, { recursive: true, force: true }))
  const engine = await engineOf(t, data)
  const values: { readonly [name: string]: string } = {
    TOKEN: canary,
    HOOK: `whsec_${randomBytes(32).toString('base64')}`,
    KAFKA: kafka.guarded.password,
    TRACES: `traces-${randomUUID()}`,
  }
  const service = serviceSettings(
    {
      ...engine.settings,
      transport: ['redis', 'kafka'],
      redisUrl: redisServer.url,
      redis: { identity: { principal: 'bus', tenant: 'acme', permissions: ['*'] } },
      kafkaBrokers: [kafka.guarded.brokers],
      kafka: {
        saslMechanism: 'PLAIN',
        username: kafka.guarded.username,
        password: 'secret:KAFKA',
        identity: { principal: 'log', tenant: 'acme', permissions: ['*'] },
      },
      tracing: { endpoint: collector.url, headers: { 'x-key': 'secret:TRACES' } },
      service: {
        logLevel: 'debug',
        port: 0,
        callbackSecret: 'HOOK',
        inlineBytes: 4_096,
        callbackOrigins: [{ origin: hooks.origin, private: true }],
      },
    },
    data,
  )
  const only = (tool: DefinedTool['tool']): DefinedTool => ({
    tool,
    run: undefined,
    input: undefined,
    output: undefined,
    lookup: undefined,
  })
  const loaded: LoadedConfig = {
    file: undefined,
    service,
    builtins: true,
    demo: false,
    warnings: [],
    options: {
      tools: [...leakyTools(used), ...web.tools.map(only), only(boxTool(web.origin))],
      backends: [web.backend, rpc.backend, leakyMcp()],
      secrets: { get: async (name: string) => values[name] },
      egress: { allow: [web.origin, rpc.origin].map((origin) => ({ origin, private: true })) },
      runtimes: { pool: false },
      identity: { principal: 'owner', tenant: 'acme', permissions: ['*'] },
    },
  }
  const said: string[] = []
  const stop = new AbortController()
  const started = Promise.withResolvers<string>()
  const ended = serve({
    load: async () => loaded,
    say: (line) => void said.push(line),
    log: { write: (line) => void said.push(line) },
    ready: (url) => started.resolve(url ?? ''),
    signal: stop.signal,
  })
  ended.catch(started.reject)
  const close = async (): Promise<void> => {
    stop.abort()
    await ended
  }
  ends.push(() => close().catch(() => undefined))
  const url = await started.promise
  const key = readFileSync(join(data, 'key'), 'utf8').trim()
  const answers: string[] = []
  /** Sends a request as the owner, and records the response with its headers for the search. */
  const ask = async (path: string, body?: unknown): Promise<string> => {
    const post = body === undefined ? {} : { method: 'POST', body: JSON.stringify(body) }
    const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
    const response = await fetch(`${url}${path}`, { headers, ...post })
    const text = Buffer.from(await response.arrayBuffer()).toString('latin1')
    answers.push(`${JSON.stringify([...response.headers])}\n${text}`)
    return text
  }
  const redis = await openRedis({ url: redisServer.url })
  t.after(() => redis.close())
  return {
    ask,
    answers,
    said,
    collector,
    hooks,
    web,
    rpc,
    used,
    redis,
    kafka,
    data,
    engine,
    close,
    key,
    secrets: {
      canary,
      'the callback key': values.HOOK ?? '',
      'the password of Kafka': values.KAFKA ?? '',
      'the key of traces': values.TRACES ?? '',
      'the password of Redis': redisServer.password,
      'the API key': key.replace(/^gk_/, ''),
    },
  }
}

for (const [name, engineOf] of Object.entries(engines)) {
  test(`${name}: no response, log, trace, message, row or file holds a secret that every tool and backend leaks`, async (t) => {
    await tellEverywhere(await openSite(t, engineOf))
  })
}

async function tellEverywhere(site: Awaited<ReturnType<typeof openSite>>): Promise<void> {
  const run = randomUUID()
  const { ask } = site
  const tools: (readonly [string, object?])[] = [
    ...['output', 'error', 'code', 'cut', 'cached', 'denied', 'chunks', 'thrown'].map(
      (name) => [`leak:${name}`] as const,
    ),
    ...site.web.tools.map(({ name }) => [`web:${name}`] as const),
    ...['say', 'fail', 'refuse', 'die'].map((name) => [`lines:${name}`] as const),
    ['rpc:Calculator.Shout', { value: 'x' }],
    ['rpc:Calculator.Fail'],
  ]
  const backwards = [...canary].reverse().join('')
  const box =
    noBubblewrap === undefined ? [10_000, 30_000].map((before) => ['leak:box', { backwards, before }] as const) : []
  const calls = [...tools, ...box]

  // Over HTTP, with a callback; then every route that reads the call.
  const ids: string[] = []
  for (const [tool, args = {}] of calls) {
    const body = { tool, args, waitMs: 20_000, callback: `${site.hooks.origin}/hook` }
    const { callId, status } = JSON.parse(await ask('/v1/calls', body))
    assert.ok(callId !== undefined, `${tool} ${site.answers.at(-1)}`)
    // A program that did not run would leak nothing.
    if (tool === 'leak:box') assert.equal(status, 'ok', site.answers.at(-1))
    ids.push(callId)
  }
  const steps = [
    { tool: 'leak:output', id: 'a' },
    { tool: 'leak:error', id: 'b', onError: 'continue' },
    { tool: 'web:echo', id: 'c', args: { from: '{{steps.a.output.plain}}' } },
  ]
  ids.push(JSON.parse(await ask('/v1/chains', { steps, waitMs: 20_000 })).chainId)
  for (const id of ids) {
    await ask(`/v1/calls/${id}?waitMs=20000`)
    await ask(`/v1/calls/${id}/events`)
    await ask(`/v1/calls/${id}/replay`, {})
  }

  // Over Redis and Kafka.
  for (const [tool, args = {}] of calls) {
    const message = JSON.stringify({ tool, args, correlationId: tool, replyTo: `sg:stream:replies:${run}` })
    await site.redis.call(['XADD', 'sg:stream:tools', '*', 'data', message])
  }
  const producer = new Producer({ clientId: 'canary', bootstrapBrokers: [site.kafka.brokers] })
  await producer.send({
    acks: -1,
    messages: calls.map(([tool, args = {}]) => ({
      topic: 'somastack.tools',
      value: Buffer.from(JSON.stringify({ tool, args, correlationId: run, replyTo: 'somastack.tool_results' })),
    })),
  })
  await producer.close()
  const replies = (): Promise<unknown> => site.redis.call(['XLEN', `sg:stream:replies:${run}`])
  await eventually(async () => (Number(await replies()) >= calls.length ? true : undefined), 'the replies over Redis')
  const overKafka = await readTopics(site.kafka.brokers, run, calls.length)
  await eventually(async () => (site.hooks.received.length >= calls.length ? true : undefined), 'the callbacks')

  for (const path of [
    '/v1/calls?limit=200',
    '/v1/dead-letters',
    '/v1/tools?limit=200',
    '/v1/catalog',
    '/v1/openapi.json',
  ])
    await ask(path)
  for (const path of [
    '/v1/audit?limit=200',
    '/v1/audit/export',
    '/v1/keys',
    '/v1/approvals',
    '/v1/policy',
    '/v1/workers',
  ])
    await ask(path)
  for (const path of ['/v1/circuits', '/metrics', '/readyz', '/v1/tools/lines:say', '/v1/calls?state=failed'])
    await ask(path)
  const artifacts = new Set(site.answers.join('').match(/art_[0-9a-f]{32}/g))
  for (const id of artifacts) await ask(`/v1/artifacts/${id}`)
  await eventually(async () => (site.collector.spans.length > calls.length ? true : undefined), 'spans')

  // Control: every tool got the secret and leaked it.
  assert.ok(site.used.length >= 20 && site.used.every((secret) => secret === canary))
  for (const { seen } of [site.web, site.rpc]) assert.ok(seen.length >= 4 && seen.every((key) => key === canary))
  const everything = site.answers.join('')
  for (const trace of [
    'it is [redacted]',
    'cannot use [redacted]',
    'no [redacted]',
    'with [redacted]',
    'Bearer [redacted]',
  ]) {
    assert.ok(everything.includes(trace), trace)
  }
  assert.ok(artifacts.size > 10)

  const inRedis = await dumpRedis(site.redis)
  await site.close()
  const database = await site.engine.open()
  const inDatabase = await dumpDatabase(database)
  await database.close()
  const files = readTree(site.data, ['key', 'callback-key'])
  assert.ok(files.some(({ path }) => path.includes('artifacts')))
  const { find } = createSearch(site.secrets)
  const places = {
    answers: site.answers,
    log: site.said,
    traces: site.collector.bodies,
    Redis: [inRedis],
    Kafka: overKafka,
    callbacks: site.hooks.received.map((one) => JSON.stringify(one)),
    database: [inDatabase],
  }
  const found = [
    ...Object.entries(places).flatMap(([place, texts]) =>
      texts.flatMap((text) => find(text).map((what) => `${place}: ${what}: ${around(text, find)}`)),
    ),
    ...files.flatMap(({ path, bytes }) =>
      createSearch({ canary })
        .find(bytes)
        .map((what) => `${path}: ${what}`),
    ),
  ]
  assert.deepEqual([...new Set(found)].slice(0, 40), [])
  // Control: the search had text to read in every place.
  for (const [place, texts] of Object.entries(places)) assert.ok(texts.join('').length > 5_000, place)
}

/** The text around a match, for the failure message. */
function around(text: string, find: (text: string) => readonly string[]): string {
  let [from, to] = [0, text.length]
  while (to - from > 160) {
    const [half, overlap] = [Math.floor((from + to) / 2), 40]
    if (find(text.slice(from, half + overlap)).length > 0) to = half + overlap
    else if (find(text.slice(half - overlap, to)).length > 0) from = half - overlap
    else break
  }
  return text.slice(from, Math.min(to, from + 300))
}

/** All records of the topics, once they include every result of this run. */
async function readTopics(brokers: string, run: string, results: number): Promise<string[]> {
  const consumer = new Consumer({ clientId: 'reader', bootstrapBrokers: [brokers], groupId: randomUUID() })
  const texts: string[] = []
  let answered = 0
  const stream = await consumer.consume({ topics, mode: 'earliest', maxWaitTime: 200 })
  stream.on('data', ({ topic, key, value, headers }) => {
    const text = [topic, key, ...headers].join(' ') + Buffer.from(value ?? '').toString('latin1')
    if (topic === 'somastack.tool_results' && text.includes(run)) answered += 1
    texts.push(text)
  })
  await eventually(async () => (answered >= results ? true : undefined), 'the results over Kafka')
  await consumer.close(true)
  return texts
}
