import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Outgoing } from '../transport.ts'
import { redisPublisher } from './publisher.ts'
import { freshKey, redisForFile } from './redis.fixture.ts'
import { listOf, numberOf, textOf } from './reply.ts'

const file = redisForFile()
const never = new AbortController().signal

function message(to: string, text: string): Outgoing {
  return { to, bytes: Buffer.from(text) }
}

test('messages are added in order, as bytes in the field, with their headers as further fields', async (t) => {
  const redis = await file.open(t)
  const to = freshKey()
  const publisher = redisPublisher({ redis })
  const bytes = new Uint8Array(new Uint8Array([9, 0, 255, 13, 10, 9]).buffer, 1, 4)
  const sent = await publisher.send([{ to, bytes, headers: { trace: 't', data: 'not this' } }, message(to, 'b')], never)
  assert.deepEqual(sent, [{ kind: 'sent' }, { kind: 'sent' }])
  const entries = listOf(await redis.call(['XRANGE', to, '-', '+'])).map((entry) => listOf(listOf(entry)[1]))
  assert.deepEqual(entries[0]?.[1], Buffer.from([0, 255, 13, 10]))
  assert.deepEqual(
    entries.map((fields) => fields.map(textOf).toSpliced(1, 1)),
    [['data', 'trace', 't'], ['data']],
  )
})

test('a message that Redis refuses for good is not retried, and does not block the others', async (t) => {
  const redis = await file.open(t)
  const { port } = await file.server(t)
  const [to, list, secret] = [freshKey(), freshKey(), freshKey()]
  await redis.call(['LPUSH', list, 'x'])
  await redis.call(['ACL', 'SETUSER', 'limited', 'on', '>pw', `~${to}`, `~${list}`, '+@all'])
  const limited = await file.open(t, { url: `redis://limited:pw@127.0.0.1:${port}` })
  const publisher = redisPublisher({ redis: limited, maxBytes: 10 })
  const messages = [message(list, 'a'), message(secret, 'b'), message(to, 'x'.repeat(11)), message(to, 'c')]
  const sent = await publisher.send(messages, never)
  assert.deepEqual(
    sent.map(({ kind }) => kind),
    ['never', 'never', 'never', 'sent'],
  )
  const errors = sent.map((one) => ('error' in one ? one.error : ''))
  for (const [at, word] of [/WRONGTYPE/, /NOPERM/, /11 bytes/].entries()) assert.match(errors[at] ?? '', word)
})

test('a message that cannot be sent now, or whose send was aborted, is to be sent again', async (t) => {
  const server = await file.server(t)
  const redis = await file.open(t)
  const publisher = redisPublisher({ redis })
  const to = freshKey()
  assert.deepEqual(
    (await publisher.send([message(to, 'a')], AbortSignal.abort())).map(({ kind }) => kind),
    ['again'],
  )
  server.pause()
  try {
    const stop = new AbortController()
    const sending = publisher.send([message(to, 'a'), message(to, 'b')], stop.signal)
    stop.abort()
    assert.deepEqual(
      (await sending).map(({ kind }) => kind),
      ['again', 'again'],
    )
  } finally {
    server.resume()
  }
  server.kill()
  assert.deepEqual(
    (await publisher.send([message(to, 'a')], never)).map(({ kind }) => kind),
    ['again'],
  )
  await server.restart()
  while ((await publisher.send([message(to, 'c')], never))[0]?.kind !== 'sent') await pause(10)
})

test('a stream keeps about the configured number of messages, or all of them', async (t) => {
  const redis = await file.open(t)
  const [short, long] = [freshKey(), freshKey()]
  const many = (to: string) => Array.from({ length: 1_000 }, (_, n) => message(to, `m${n}`))
  await redisPublisher({ redis, replyMaxLen: 200 }).send(many(short), never)
  await redisPublisher({ redis, replyMaxLen: 0 }).send(many(long), never)
  const left = numberOf(await redis.call(['XLEN', short])) ?? 0
  assert.ok(left >= 200 && left < 400, String(left))
  assert.equal(numberOf(await redis.call(['XLEN', long])), 1_000)
})
