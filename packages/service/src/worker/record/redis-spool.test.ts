import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import type { RedisConnections } from '../../brokers/transports/redis/connection.ts'
import { freshKey, redisForFile } from '../../brokers/transports/redis/redis.fixture.ts'
import { listOf, numberOf, textOf } from '../../brokers/transports/redis/reply.ts'
import { someEnding, someResult } from '../../conformance/call-store/samples.ts'
import type { Ending } from '../../storage/calls/call-store.ts'
import { redisSpool } from './redis-spool.ts'
import type { Spool } from './spool.ts'

const file = redisForFile({ fsync: 'always' })
const never = (): void => assert.fail('nothing is spoilt')

function ending(callId: string): Ending {
  const result = someResult(callId, { output: { text: 'line\nbreak\u0000' } })
  return someEnding({ callId, fence: 1 }, { result, bytes: 10 })
}

const open = (redis: RedisConnections, key: string): Promise<Spool> => redisSpool({ redis, key, spoilt: never })

function collector(): { readonly seen: string[]; readonly work: (endings: readonly Ending[]) => Promise<void> } {
  const seen: string[] = []
  return { seen, work: async (endings) => void seen.push(...endings.map(({ callId }) => callId)) }
}

test('any worker drains the outcomes of all workers, in order, and nothing is left', async (t) => {
  const redis = await file.open(t)
  const key = freshKey()
  const [one, two] = [await open(redis, key), await open(redis, key)]
  await one.add([ending('a'), ending('b')])
  await two.add([ending('c')])
  await one.add([ending('d')])
  assert.deepEqual([one.depth, two.depth], [3, 1])
  const later = await open(await file.open(t), key)
  assert.equal(later.depth, 4)
  const kept: Ending[] = []
  await later.drain(async (endings) => void kept.push(...endings))
  assert.deepEqual(kept, ['a', 'b', 'c', 'd'].map(ending))
  assert.equal(later.depth, 0)
  await one.drain(() => assert.fail('nothing is left'))
  assert.equal(one.depth, 0)
  assert.equal(numberOf(await redis.call(['GET', `${key}:bytes`])), 0)
  assert.equal(numberOf(await redis.call(['EXISTS', `${key}:lock`])), 0)
})

test('outcomes that could not be recorded stay, and come first the next time', async (t) => {
  const spool = await open(await file.open(t), freshKey())
  await spool.add([ending('a')])
  await assert.rejects(
    spool.drain(() => Promise.reject(new Error('unavailable'))),
    /unavailable/,
  )
  await spool.add([ending('b')])
  const { seen, work } = collector()
  await spool.drain(work)
  assert.deepEqual(seen, ['a', 'b'])
})

test('of two drainers one waits for the other, and no outcome is drained twice', async (t) => {
  const redis = await file.open(t)
  const key = freshKey()
  const [one, two] = [await open(redis, key), await open(await file.open(t), key)]
  const names = Array.from({ length: 700 }, (_, n) => `c${n}`)
  await one.add(names.map(ending))
  const { seen, work } = collector()
  let working = 0
  const slowly = async (endings: readonly Ending[]): Promise<void> => {
    working += 1
    assert.equal(working, 1)
    await pause(20)
    await work(endings)
    working -= 1
  }
  await Promise.all([one.drain(slowly), two.drain(slowly)])
  assert.deepEqual(seen, names)
  assert.deepEqual([one.depth, two.depth], [0, 0])
})

test('a drainer that lost its lock stops, and removes only the outcomes that it recorded', async (t) => {
  const redis = await file.open(t)
  const key = freshKey()
  const spool = await open(redis, key)
  const names = Array.from({ length: 250 }, (_, n) => `c${n}`)
  await spool.add(names.map(ending))
  const { seen, work } = collector()
  let isStolen = false
  await spool.drain(async (endings) => {
    await work(endings)
    if (isStolen) return
    isStolen = true
    // The other drainer dies soon after, and only the expiry removes its lock.
    await redis.call(['SET', `${key}:lock`, 'another', 'PX', 300])
    setTimeout(() => void redis.call(['XADD', `${key}:mark`, '*', 'a', seen.length]), 150)
  })
  assert.deepEqual(seen, names)
  const [mark] = listOf(await redis.call(['XRANGE', `${key}:mark`, '-', '+']))
  assert.equal(numberOf(listOf(listOf(mark)[1])[1]), 200)
})

test('a full spool refuses outcomes, keeps what it has, and accepts more once it is drained', async (t) => {
  const redis = await file.open(t)
  const size = JSON.stringify(ending('a')).length
  const spool = await redisSpool({ redis, key: freshKey(), maxBytes: size * 2, spoilt: never })
  await spool.add([ending('a')])
  await assert.rejects(spool.add([ending('b'), ending('c')]), isCode('STORE_UNAVAILABLE'))
  await spool.add([ending('d')])
  const { seen, work } = collector()
  await spool.drain(work)
  await spool.add([ending('e'), ending('f')])
  await spool.drain(work)
  assert.deepEqual(seen, ['a', 'd', 'e', 'f'])
})

test('an entry that cannot be parsed is put aside, and the others are drained', async (t) => {
  const redis = await file.open(t)
  const key = freshKey()
  for (const text of ['{"callId":', 'null', '{"callId":"x","fence":1}']) {
    await redis.call(['XADD', key, '*', 'ending', text])
  }
  const reported: [string, number][] = []
  const spool = await redisSpool({ redis, key, spoilt: (where, count) => void reported.push([where, count]) })
  await spool.add([ending('a')])
  const { seen, work } = collector()
  await spool.drain(work)
  assert.deepEqual([seen, reported], [['a'], [[`${key}:spoilt`, 3]]])
  assert.equal(numberOf(await redis.call(['XLEN', `${key}:spoilt`])), 3)
})

test('a server whose settings could lose acknowledged writes is refused', async (t) => {
  const redis = await file.open(t)
  const refused = (): Promise<void> => assert.rejects(open(redis, freshKey()), isCode('CONFIG_INVALID'))
  for (const [name, bad, good] of [
    ['appendfsync', 'everysec', 'always'],
    ['maxmemory-policy', 'allkeys-lru', 'noeviction'],
    ['appendonly', 'no', 'yes'],
  ] as const) {
    await redis.call(['CONFIG', 'SET', name, bad])
    await refused()
    await redis.call(['CONFIG', 'SET', name, good])
  }
  // An append-only file that was enabled at runtime is not durable until its first rewrite, and the next test kills the
  // server.
  const isRewriting = async () =>
    /aof_rewrite_(?:in_progress|scheduled):1/.test(textOf(await redis.call(['INFO', 'persistence'])))
  while (await isRewriting()) await pause(10)
  await redis.call(['ACL', 'SETUSER', 'limited', 'on', '>pw', '~*', '+@all', '-config'])
  const { port } = await file.server(t)
  const limited = await file.open(t, { url: `redis://limited:pw@127.0.0.1:${port}` })
  await assert.rejects(
    open(limited, freshKey()),
    (error) => isCode('CONFIG_INVALID')(error) && /CONFIG GET/.test(String(error)),
  )
  await open(redis, freshKey())
})

test('spooled outcomes survive a kill of the server, in order', async (t) => {
  const server = await file.server(t)
  const redis = await file.open(t)
  const key = freshKey()
  const spool = await open(redis, key)
  const kept: string[] = []
  for (let round = 0; round < 2; round += 1) {
    let isDead = false
    for (let n = 0; !isDead; n += 1) {
      const name = `r${round}-${n}`
      if (n === 60) server.kill()
      isDead =
        (await spool.add([ending(name)]).then(
          () => void kept.push(name),
          (error) => isCode('STORE_UNAVAILABLE')(error),
        )) === true
    }
    await server.restart()
    while (
      await redis.call(['PING']).then(
        () => false,
        () => true,
      )
    )
      await pause(20)
  }
  const { seen, work } = collector()
  await spool.drain(work)
  // An entry that was not acknowledged may be stored too.
  assert.deepEqual(
    seen.filter((name) => kept.includes(name)),
    kept,
  )
  assert.ok(kept.length >= 120)
})

function isCode(code: string): (error: unknown) => boolean {
  return (error) => ToolError.is(error) && error.code === code
}
