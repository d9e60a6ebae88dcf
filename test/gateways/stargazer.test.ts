import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { decode, encode } from '@msgpack/msgpack'
import { Redis } from 'ioredis'
import { result } from '../../packages/service/src/brokers/codecs/codec.fixture.ts'
import { stargazerCodec, stargazerReplyRule } from '../../packages/service/src/brokers/codecs/stargazer.ts'
import { type RedisServer, startRedis } from '../../scripts/engines/redis.ts'
import { stargazerGateway } from './stargazer.ts'

let engine: RedisServer | undefined
const missing = await startRedis().then(
  (server) => {
    engine = server
    return false
  },
  (error: Error) => {
    if (process.env.GANTRY_ENGINES === 'required') throw error
    return `Redis cannot be had: ${error.message}`
  },
)
after(() => engine?.stop())
const url = engine?.url ?? ''
const mayReplyTo = stargazerReplyRule(['sg:stream:tools', 'sg:stream:dlq'])
const codec = stargazerCodec({ mayReplyTo })

/** A minimal responder: answers each entry with its arguments, or with an error. */
async function echoWorker(redis: Redis, signal: AbortSignal): Promise<void> {
  let last = '0-0'
  while (!signal.aborted) {
    const found = await redis.xreadBuffer('COUNT', 500, 'BLOCK', 100, 'STREAMS', 'sg:stream:tools', last)
    const streams = found as unknown as [Buffer, [Buffer, Buffer[]][]] | [[Buffer, [Buffer, Buffer[]][]]] | null
    const entries = Array.isArray(streams?.[0]) ? streams[0][1] : ((streams?.[1] ?? []) as [Buffer, Buffer[]][])
    for (const [id, [, bytes = Buffer.of()]] of entries) {
      last = id.toString()
      const message = { bytes, headers: new Map(), source: 'sg:stream:tools', position: last }
      const decoded = codec.decode(message)
      if (decoded.address === undefined) continue
      const reply = decoded.kind === 'invalid' ? decoded : undefined
      const { to, bytes: answer } = codec.reply(
        decoded.address,
        reply === undefined && decoded.kind === 'call'
          ? { kind: 'ended', result: result({ output: JSON.stringify(decoded.input.args) }), files: [] }
          : { kind: 'refused', error: reply?.error ?? new ToolError('INTERNAL', 'No.') },
        new Date(),
      )
      redis.xadd(to, '*', 'data', Buffer.from(answer)).catch(() => undefined)
    }
  }
}

test('a Stargazer gateway receives all replies of a thousand concurrent requests', { skip: missing }, async (t) => {
  const redis = new Redis(url)
  const stop = new AbortController()
  const working = echoWorker(redis, stop.signal)
  const ledger = { sent: 0, replies: 0, unawaited: 0 }
  const gateway = await stargazerGateway({
    redisUrl: url,
    onSent: () => ledger.sent++,
    onReply: (_reply, awaited) => {
      ledger.replies++
      if (!awaited) ledger.unawaited++
    },
  })
  t.after(async () => {
    stop.abort()
    await working
    await gateway.close()
    redis.disconnect()
  })
  const replies = await Promise.all(
    Array.from({ length: 1_000 }, (_, n) => gateway.call('echo', { n, text: 'ü\u2028' })),
  )
  for (const [n, reply] of replies.entries()) assert.equal(reply.result, JSON.stringify({ n, text: 'ü\u2028' }))
  assert.deepEqual(ledger, { sent: 1_000, replies: 1_000, unawaited: 0 })
  assert.equal(gateway.pending, 0)

  const silent = await stargazerGateway({ redisUrl: url })
  t.after(() => silent.close())
  assert.equal((await silent.call('echo', { n: 1 })).result, '{"n":1}')

  const stranger = await gateway.call('echo', {}, { ctx: { trace_id: '' } })
  assert.equal(stranger.code, 'UNAUTHENTICATED')
  const lossy = await gateway.call('echo', { n: Number.NaN })
  assert.equal(lossy.code, 'PAYLOAD_INVALID')
  const before = await redis.xlen('sg:stream:tools')
  await gateway.send('echo', {}, { replyTo: 'sg:stream:tools' })
  await gateway.call('echo', {})
  assert.equal(await redis.xlen('sg:stream:tools'), before + 2, 'nothing was answered into the stream of jobs')
})

test('a Stargazer gateway writes its session and mirrors the catalog', { skip: missing }, async (t) => {
  const redis = new Redis(url)
  const gateway = await stargazerGateway({ redisUrl: url })
  t.after(async () => {
    await gateway.close()
    redis.disconnect()
  })
  const record = decode((await redis.getBuffer(`sg:tools:session:${gateway.traceId}`)) ?? Buffer.of())
  assert.deepEqual(record, { user_id: 'u-1', guild_id: 'g-1', channel_id: 'ch-1', platform: 'discord' })
  assert.ok((await redis.ttl(`sg:tools:session:${gateway.traceId}`)) > 200)
  assert.equal(gateway.catalog(), undefined)

  const catalog = { tools: [{ name: 'echo' }], permissions: {}, schema_hash: 'h1' }
  await redis.set('sg:tools:catalog:v7', Buffer.from(encode(catalog)))
  await redis.set('sg:tools:catalog:current', '7')
  await redis.publish('sg:pubsub:tools:catalog', '{"version": 7, "schema_hash": "h1"}')
  await gateway.refresh()
  assert.deepEqual(gateway.catalog(), { version: 7, ...catalog })

  await redis.del('sg:stream:tools')
  const id = await gateway.send('echo', { a: 1 })
  const [[, [field, bytes]] = [Buffer.of(), []]] = (await redis.xrangeBuffer('sg:stream:tools', '-', '+')) as [
    Buffer,
    Buffer[],
  ][]
  assert.equal(String(field), 'data')
  const envelope = decode(bytes ?? Buffer.of()) as Record<string, unknown>
  assert.deepEqual(Object.keys(envelope), [
    'correlation_id',
    'reply_to',
    'idem_key',
    'schema_hash',
    'tool_name',
    'tool_args',
    'ctx',
  ])
  assert.deepEqual([envelope.correlation_id, envelope.idem_key, envelope.schema_hash], [id, id, 'h1'])
})
