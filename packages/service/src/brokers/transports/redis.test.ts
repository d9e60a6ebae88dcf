import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { type TransportFixture, testTransport } from '../../conformance/transport.ts'
import { openRedis, type RedisConnections } from './redis/connection.ts'
import { positionOf } from './redis/group.ts'
import { freshKey, redisForFile } from './redis/redis.fixture.ts'
import { listOf, numberOf, textOf } from './redis/reply.ts'
import { type RedisTransportOptions, redisTransport } from './redis.ts'
import type { Delivery, Transport } from './transport.ts'

const file = redisForFile({ fsync: 'always' })
const never = new AbortController().signal
const group = 'g'

type Made = Partial<RedisTransportOptions> & { readonly stream: string }

async function make(t: TestContext, redis: RedisConnections, options: Made): Promise<Transport> {
  const transport = await redisTransport({ redis, group, consumer: randomUUID(), ...options })
  t.after(() => transport.close())
  return transport
}

async function add(redis: RedisConnections, stream: string, ...texts: readonly string[]): Promise<string[]> {
  const ids = []
  for (const text of texts) ids.push(textOf(await redis.call(['XADD', stream, '*', 'data', text])))
  return ids
}

async function take(transport: Transport, count: number): Promise<Delivery[]> {
  const taken: Delivery[] = []
  while (taken.length < count) taken.push(...(await transport.receive(count - taken.length, never)))
  return taken
}

/** The deliveries of a short wait; none, when none arrives. */
async function takeSome(transport: Transport, ms: number): Promise<readonly Delivery[]> {
  return transport.receive(100, AbortSignal.timeout(ms))
}

function text({ body }: Delivery): string {
  return body.kind === 'message' ? Buffer.from(body.message.bytes).toString() : body.kind
}

async function pendingCount(redis: RedisConnections, stream: string): Promise<number> {
  return numberOf(listOf(await redis.call(['XPENDING', stream, group]))[0]) ?? 0
}

async function consumersOf(redis: RedisConnections, stream: string): Promise<string[]> {
  return listOf(await redis.call(['XINFO', 'CONSUMERS', stream, group])).map((one) => textOf(listOf(one)[1]))
}

/** Gives up after a time, so that a missing delivery fails the test. */
async function until(condition: () => Promise<boolean> | boolean): Promise<void> {
  const end = performance.now() + 15_000
  while (!(await condition()) && performance.now() < end) await pause(10)
}

test('the conformance suite has a server', async (t) => {
  await file.server(t)
})

testTransport('redis transport', async (): Promise<TransportFixture> => {
  const redis = await openRedis({ url: (await file.shared()).url })
  const stream = freshKey()
  const claimIdleMs = 400
  const one = await redisTransport({ redis, stream, group, consumer: 'one', claimIdleMs })
  const other = await redisTransport({ redis, stream, group, consumer: 'two', claimIdleMs })
  return {
    transport: one,
    other,
    async send(ids) {
      await add(redis, stream, ...ids)
    },
    async expire() {
      await one.close()
      await pause(claimIdleMs)
    },
    idOf: text,
    commit: async () => undefined,
    async close() {
      await Promise.all([one.close(), other.close()])
      await redis.close()
    },
  }
})

test('an entry is a message with its field as bytes, its other fields as headers, and its id as position', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const transport = await make(t, redis, { stream })
  const bytes = Buffer.from([0xff, 0x00, 0x81, 0x0d, 0x0a])
  await redis.call(['XADD', stream, '7-1', 'data', bytes, 'trace', 't'])
  await redis.call(['XADD', stream, '7-2', 'payload', 'only one'])
  await redis.call(['XADD', stream, '7-3', 'a', 'one', '__proto__', 'two'])
  const deliveries = await take(transport, 3)
  assert.deepEqual(
    deliveries.map(({ id, body }) => {
      assert.ok(body.kind === 'message')
      const { bytes, headers, source, position } = body.message
      assert.equal(source, stream)
      assert.equal(id, `${stream}/${position}`)
      return [position, Buffer.from(bytes).toString('hex'), [...headers].map(([name, value]) => `${name}=${value}`)]
    }),
    [
      ['7-1', 'ff00810d0a', ['trace=t']],
      ['7-2', Buffer.from('only one').toString('hex'), []],
      ['7-3', '', ['a=one', '__proto__=two']],
    ],
  )
})

test('entries that precede the group are delivered', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  await add(redis, stream, 'early')
  const transport = await make(t, redis, { stream })
  assert.deepEqual((await take(transport, 1)).map(text), ['early'])
})

test('entries that were trimmed before they were settled are delivered as gone, until that is settled', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const claimIdleMs = 300
  const dead = await make(t, redis, { stream, claimIdleMs, consumer: 'dead' })
  const ids = await add(redis, stream, 'a', 'b', 'c', 'd', 'e')
  const [first] = await take(dead, 5)
  assert.ok(first !== undefined)
  await dead.settle([first])
  await dead.close()
  await redis.call(['XTRIM', stream, 'MINID', ids[3] ?? ''])
  const one = await make(t, redis, { stream, claimIdleMs })
  const taken = await take(one, 4)
  assert.deepEqual(new Set(taken.map(text)), new Set(['gone', 'd', 'e']))
  const gone = taken.filter(({ body }) => body.kind === 'gone')
  assert.deepEqual(gone.map(positionOf), ids.slice(1, 3))
  // The consumer that received it dies before it settled it: another one receives it.
  await one.close()
  const other = await make(t, redis, { stream, claimIdleMs })
  const again = await take(other, 4)
  assert.deepEqual(again.map(positionOf).sort(), taken.map(positionOf).sort())
  await other.settle(again)
  assert.equal(await pendingCount(redis, stream), 0)
  assert.deepEqual(await takeSome(await make(t, redis, { stream, claimIdleMs }), claimIdleMs * 2), [])
})

test('a delivery in flight is not claimed by other consumers however long it takes, and not delivered twice here', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const claimIdleMs = 300
  const slow = await make(t, redis, { stream, claimIdleMs, consumer: 'slow' })
  const other = await make(t, redis, { stream, claimIdleMs })
  await add(redis, stream, 'a')
  const held = await take(slow, 1)
  assert.deepEqual(await takeSome(other, claimIdleMs * 4), [])
  // As if this process had slept for long.
  const [position = ''] = held.map(positionOf)
  await redis.call(['XCLAIM', stream, group, 'slow', 0, position, 'IDLE', 10_000, 'JUSTID'])
  slow.wake()
  assert.deepEqual(await takeSome(slow, claimIdleMs), [])
  await slow.settle(held)
  assert.equal(await pendingCount(redis, stream), 0)
})

test('renewing deliveries in flight leaves those that another consumer claimed to it', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const slow = await make(t, redis, { stream, claimIdleMs: 300, consumer: 'slow' })
  const [id = ''] = await add(redis, stream, 'a')
  await take(slow, 1)
  await redis.call(['XCLAIM', stream, group, 'thief', 0, id])
  await pause(400)
  const [pending] = listOf(await redis.call(['XPENDING', stream, group, '-', '+', 10]))
  assert.equal(textOf(listOf(pending)[1]), 'thief')
})

test('a released entry is delivered again after its delay, not before, with its count', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const transport = await make(t, redis, { stream, claimIdleMs: 2_000 })
  await add(redis, stream, 'a')
  const began = performance.now()
  await transport.release(await take(transport, 1), 500)
  const again = await take(transport, 1)
  assert.ok(performance.now() - began >= 500)
  assert.deepEqual([again.map(text), again[0]?.deliveries], [['a'], 2])
})

test('an idle consumer is removed only when it has no pending entry', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const transport = await make(t, redis, { stream, reapIdleMs: 200, consumer: 'tidy' })
  await add(redis, stream, 'a')
  await redis.call(['XREADGROUP', 'GROUP', group, 'holder', 'COUNT', 1, 'STREAMS', stream, '>'])
  await redis.call(['XGROUP', 'CREATECONSUMER', stream, group, 'empty'])
  await pause(300)
  await redis.call(['XGROUP', 'CREATECONSUMER', stream, group, 'new'])
  await takeSome(transport, 200)
  assert.deepEqual((await consumersOf(redis, stream)).sort(), ['holder', 'new', 'tidy'])
  assert.equal(await pendingCount(redis, stream), 1)
})

test('entries are removed once every group has settled them, and never before', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const claimIdleMs = 200
  const transport = await make(t, redis, { stream, claimIdleMs })
  const other = await make(t, redis, { stream, claimIdleMs, group: 'h' })
  const texts = Array.from({ length: 500 }, (_, n) => `m${n}`)
  await redis.pipeline(texts.map((data) => ['XADD', stream, '*', 'data', data]))
  await transport.settle(await take(transport, 500))
  const theirs = await take(other, 500)
  await takeSome(transport, claimIdleMs * 2)
  assert.deepEqual(theirs.map(text), texts)
  assert.equal(numberOf(await redis.call(['XLEN', stream])), 500)
  await other.settle(theirs.slice(0, 250))
  await other.settle(theirs.slice(251))
  await takeSome(transport, claimIdleMs * 2)
  const held = await redis.call(['XRANGE', stream, positionOf(theirs[250] ?? assert.fail()) ?? '', '+'])
  assert.equal(listOf(held).length, 250)
  assert.ok((numberOf(await redis.call(['XLEN', stream])) ?? 0) < 400)
  await other.settle(theirs.slice(250, 251))
  await takeSome(transport, claimIdleMs * 2)
  assert.ok((numberOf(await redis.call(['XLEN', stream])) ?? 0) <= 101)
})

test('a destroyed group and a deleted stream are created again', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const transport = await make(t, redis, { stream })
  await add(redis, stream, 'a')
  await transport.settle(await take(transport, 1))
  await redis.call(['XGROUP', 'DESTROY', stream, group])
  await add(redis, stream, 'b')
  const again = await take(transport, 2)
  assert.deepEqual(again.map(text), ['a', 'b'])
  await transport.settle(again)
  const waiting = transport.receive(10, never)
  await redis.call(['DEL', stream])
  await add(redis, stream, 'c')
  assert.deepEqual((await waiting).map(text), ['c'])
})

test('a delivery whose response was lost is read again at once', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const ids = await add(redis, stream, 'a', 'b')
  const transport = await make(t, redis, { stream, consumer: 'me', claimIdleMs: 60_000 })
  // Delivered over a connection that broke before the response arrived; one entry was removed since.
  await redis.call(['XREADGROUP', 'GROUP', group, 'me', 'STREAMS', stream, '>'])
  await redis.call(['XDEL', stream, ids[0] ?? ''])
  const [lost] = await take(transport, 1)
  assert.ok(lost !== undefined)
  assert.deepEqual([text(lost), lost.deliveries], ['b', 2])
})

test('an entry that arrives after the reader stopped waiting goes to another consumer when the transport closes', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const transport = await make(t, redis, { stream, claimIdleMs: 60_000 })
  const stop = new AbortController()
  const waiting = transport.receive(10, stop.signal)
  await until(async () => textOf(await redis.call(['CLIENT', 'LIST'])).includes(' flags=b '))
  stop.abort()
  await add(redis, stream, 'a')
  assert.deepEqual(await waiting, [])
  await transport.close()
  const other = await make(t, redis, { stream, claimIdleMs: 60_000 })
  assert.deepEqual((await take(other, 1)).map(text), ['a'])
})

test('lag counts unread and pending entries', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const transport = await make(t, redis, { stream })
  assert.equal(await transport.lag?.(), 0)
  const ids = await add(redis, stream, 'a', 'b', 'c')
  await take(transport, 1)
  assert.equal(await transport.lag?.(), 3)
  await redis.call(['XDEL', stream, ids[2] ?? ''])
  assert.equal(await transport.lag?.(), 2)
})

test('consumers that start and stop never hold the same entry at once, and no entry is lost', async (t) => {
  const redis = await file.open(t)
  const stream = freshKey()
  const count = 200
  const holders = new Map<string, string>()
  const done = new Set<string>()
  const work = async (name: string, stop: AbortSignal, mayDie: boolean): Promise<void> => {
    const transport = await redisTransport({ redis, stream, group, consumer: name, claimIdleMs: 600 })
    while (!stop.aborted) {
      const taken = await transport.receive(7, stop)
      for (const delivery of taken) {
        const holder = holders.get(text(delivery))
        assert.equal(holder, undefined, `${text(delivery)} is held by ${holder}, and by ${name}`)
        holders.set(text(delivery), name)
      }
      await pause(Math.random() * 20)
      const rest = taken.filter(() => Math.random() < 0.3)
      for (const delivery of taken) holders.delete(text(delivery))
      if (mayDie && Math.random() < 0.1) break
      for (const delivery of taken) if (!rest.includes(delivery)) done.add(text(delivery))
      await transport.settle(taken.filter((delivery) => !rest.includes(delivery)))
      await transport.release(rest, 0)
    }
    await transport.close()
  }
  const stop = new AbortController()
  const churn = async (slot: number): Promise<void> => {
    for (let life = 0; !stop.signal.aborted; life += 1) await work(`${slot}-${life}`, stop.signal, slot > 0)
  }
  const working = Promise.all([churn(0), churn(1), churn(2)])
  await redis.pipeline(Array.from({ length: count }, (_, n) => ['XADD', stream, '*', 'data', `m${n}`]))
  await Promise.race([until(() => done.size === count), working])
  stop.abort()
  await working
  assert.equal(done.size, count)
})

test('a server that does not answer makes receive fail, and entries sent meanwhile arrive when it answers again', async (t) => {
  const server = await file.server(t)
  const redis = await file.open(t, { commandMs: 300 })
  const stream = freshKey()
  const transport = await make(t, redis, { stream })
  await takeSome(transport, 50)
  server.pause()
  try {
    await assert.rejects(take(transport, 1), isUnavailable)
    await assert.rejects(transport.settle([goneOne(stream)]), isUnavailable)
  } finally {
    server.resume()
  }
  await until(() => add(redis, stream, 'a').then(Boolean, () => false))
  assert.ok((await takeStubbornly(transport, 1)).map(text).includes('a'))
})

test('a server that is killed under load loses no acknowledged entry', async (t) => {
  const server = await file.server(t)
  const redis = await file.open(t)
  const stream = freshKey()
  const options = { stream, claimIdleMs: 1_000 }
  const one = await make(t, redis, options)
  const two = await make(t, redis, options)
  const sent = new Set<string>()
  const done = new Set<string>()
  const stop = new AbortController()
  const produce = async (producer: number): Promise<void> => {
    for (let n = 0; !stop.signal.aborted; n += 1) {
      const name = `m${producer}-${n}`
      if (await add(redis, stream, name).then(Boolean, () => false)) sent.add(name)
      else await pause(5)
    }
  }
  const finish = new AbortController()
  const consume = async (transport: Transport): Promise<void> => {
    while (!finish.signal.aborted) {
      const taken = await transport.receive(20, finish.signal).catch(() => pause(20).then(() => []))
      for (const delivery of taken) done.add(text(delivery))
      await transport.settle(taken).catch(() => {})
    }
  }
  const producing = Promise.all([produce(0), produce(1), produce(2), produce(3)])
  const consuming = Promise.all([consume(one), consume(two)])
  for (let kills = 0; kills <= 2; kills += 1) {
    if (kills > 0) await server.restart()
    const before = sent.size
    await until(() => sent.size > before + 300)
  }
  stop.abort()
  await producing
  const lost = (): string[] => [...sent].filter((name) => !done.has(name))
  await until(async () => lost().length === 0 && (await pendingCount(redis, stream)) === 0)
  finish.abort()
  await consuming
  assert.deepEqual(lost(), [])
  assert.equal(await pendingCount(redis, stream), 0)
  t.diagnostic(`${sent.size} acknowledged over 2 kills`)
})

test('invalid durations are refused', async (t) => {
  const redis = await file.open(t)
  const wrong = redisTransport({ redis, stream: 's', group, consumer: 'c', claimIdleMs: 0 })
  await assert.rejects(wrong, (error) => ToolError.is(error) && error.code === 'CONFIG_INVALID')
})

async function takeStubbornly(transport: Transport, count: number): Promise<Delivery[]> {
  for (;;) {
    const taken = await take(transport, count).catch(() => undefined)
    if (taken !== undefined) return taken
    await pause(20)
  }
}

function goneOne(stream: string): Delivery {
  return { id: stream, body: { kind: 'gone', source: stream, position: '1-1' }, deliveries: 1 }
}

function isUnavailable(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'STORE_UNAVAILABLE'
}
