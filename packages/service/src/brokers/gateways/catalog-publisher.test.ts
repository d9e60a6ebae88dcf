import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { redisForFile } from '../transports/redis/redis.fixture.ts'
import { numberOf, textOf } from '../transports/redis/reply.ts'
import { freshPlace, readAsGateway, toolOf, writtenOf } from './catalog.fixture.ts'
import { digestsKey, keepCatalog, publishCatalog } from './catalog-publisher.ts'

const engine = redisForFile()
const add = toolOf('math:add', { inputSchema: { type: 'object', properties: { a: { type: 'number' } } } })
const fetchIt = toolOf('web:fetch', { effect: 'once', permissions: ['net'] })

test('a gateway finds the tools behind the pointer, with digests, flags, permissions and the hash', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const written = await writtenOf(t, [add, fetchIt], {
    usersOf: ({ permissions }) => (permissions?.includes('net') ? ['discord:1'] : undefined),
  })
  assert.deepEqual(await publishCatalog(redis, written, place), { version: 1, fresh: true })
  const { tools, permissions, schema_hash, version } = await readAsGateway(redis, place.prefix)
  assert.deepEqual([schema_hash, version, permissions], [written.hash, 1, { fetch: ['discord:1'] }])
  assert.deepEqual(tools[0], {
    name: 'add',
    description: 'The tool math:add.',
    allow_repeat: true,
    no_background: false,
    parameters: { type: 'object', properties: { a: { type: 'number' } } },
    id: 'math:add',
    version: '1.0.0',
    effect: 'read',
    digest: written.digests.get('math:add'),
  })
  assert.deepEqual([tools[1]?.name, tools[1]?.allow_repeat], ['fetch', false])
  assert.equal(JSON.stringify(tools).includes('net'), false)
})

test('the published tools are sorted by their gateway names', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  await publishCatalog(redis, await writtenOf(t, [toolOf('a:zeta'), toolOf('b:alpha')]), place)
  const names = (await readAsGateway(redis, place.prefix)).tools.map(({ name }) => name)
  assert.deepEqual(names, ['alpha', 'zeta'])
})

test('subscribed gateways are notified of the version and its hash in JSON', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const notified = Promise.withResolvers<Buffer | undefined>()
  const stop = await redis.subscribe(place.channel, notified.resolve)
  t.after(stop)
  const written = await writtenOf(t, [add])
  await publishCatalog(redis, written, place)
  const notice = JSON.parse(textOf(await notified.promise)) as unknown
  assert.deepEqual(notice, { version: 1, schema_hash: written.hash })
})

test('the hash is the same for the same tools in any order, and differs when any part visible to a model differs', async (t) => {
  const schema = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'string' } }, required: ['a'] }
  const turned = { required: ['a'], properties: { b: { type: 'string' }, a: { type: 'number' } }, type: 'object' }
  const [one, other] = [toolOf('math:add', { inputSchema: schema }), toolOf('web:fetch')]
  const { hash, fingerprint } = await writtenOf(t, [one, other])
  assert.match(hash, /^[0-9a-f]{64}$/)
  const same = await writtenOf(t, [other, toolOf('math:add', { inputSchema: turned })])
  assert.deepEqual([same.hash, same.fingerprint], [hash, fingerprint])
  const changes = [
    [toolOf('math:add', { inputSchema: schema, description: 'Adds.' }), other],
    [toolOf('math:add', { inputSchema: { ...schema, required: [] } }), other],
    [toolOf('math:add', { inputSchema: schema, effect: 'once' }), other],
    [toolOf('math:plus', { inputSchema: schema }), other],
    [one],
    [one, other, toolOf('lists:add')],
  ]
  const hashes = await Promise.all(changes.map(async (tools) => (await writtenOf(t, tools)).hash))
  assert.equal(new Set([hash, ...hashes]).size, changes.length + 1)
})

test('workers that publish the same catalog concurrently make one version and send one notification', async (t) => {
  const workers = await Promise.all(Array.from({ length: 8 }, () => engine.open(t)))
  const [redis] = workers
  assert.ok(redis)
  const place = freshPlace()
  const received: unknown[] = []
  t.after(await redis.subscribe(place.channel, (message) => received.push(textOf(message))))
  const extra = await writtenOf(t, [add, fetchIt])
  const same = await Promise.all(workers.map(() => writtenOf(t, [add, fetchIt])))
  const published = await Promise.all(
    workers.flatMap((worker, index) =>
      Array.from({ length: 5 }, () => publishCatalog(worker, same[index] ?? extra, place)),
    ),
  )
  assert.deepEqual(
    [published.filter(({ fresh }) => fresh).length, new Set(published.map(({ version }) => version)).size],
    [1, 1],
  )
  assert.equal(textOf(await redis.call(['GET', `${place.prefix}:seq`])), '1')
  await publishCatalog(redis, await writtenOf(t, [add]), place)
  while (received.length < 2) await turn()
  assert.equal(received.length, 2)
})

test('changed permissions make a new version under the same hash', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const before = await writtenOf(t, [fetchIt], { usersOf: () => ['discord:1'] })
  const after = await writtenOf(t, [fetchIt], { usersOf: () => ['discord:2'] })
  assert.equal(before.hash, after.hash)
  await publishCatalog(redis, before, place)
  assert.deepEqual(await publishCatalog(redis, after, place), { version: 2, fresh: true })
  assert.deepEqual((await readAsGateway(redis, place.prefix)).permissions, { fetch: ['discord:2'] })
})

test('former versions expire, all but the last few at once, and the current one stays', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const catalogs = [await writtenOf(t, [add]), await writtenOf(t, [fetchIt])]
  for (let version = 1; version <= 20; version += 1) {
    const written = catalogs[version % 2]
    assert.ok(written)
    assert.deepEqual(await publishCatalog(redis, written, place), { version, fresh: true })
  }
  const left = async (version: number) => numberOf(await redis.call(['PTTL', `${place.prefix}:v${version}`]))
  const ttl = async (version: number) => Number(await redis.call(['PTTL', `${place.prefix}:v${version}`]))
  assert.equal(await ttl(20), -1)
  assert.ok(((await left(19)) ?? 0) > 3_000_000)
  assert.ok(((await left(5)) ?? 0) > 3_000_000)
  assert.equal(await ttl(4), -2)
  const digests = Number(await redis.call(['PTTL', digestsKey(catalogs[0]?.hash ?? '', place.prefix)]))
  assert.ok(digests > 3_000_000)
})

test('in a rolling deploy the newest catalog stays current while a live process serves it, then the others take over', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const [old, young] = [await writtenOf(t, [add]), await writtenOf(t, [add, fetchIt])]
  await publishCatalog(redis, old, place)
  await publishCatalog(redis, young, place)
  assert.deepEqual([await keepCatalog(redis, old, place), await keepCatalog(redis, young, place)], [true, true])
  assert.equal((await readAsGateway(redis, place.prefix)).schema_hash, young.hash)
  await redis.call(['DEL', digestsKey(old.hash, place.prefix)])
  assert.equal(await keepCatalog(redis, old, place), true)
  assert.equal(Number(await redis.call(['EXISTS', digestsKey(old.hash, place.prefix)])), 1)
  assert.equal((await readAsGateway(redis, place.prefix)).schema_hash, young.hash)
  // No process renews the mark of the younger one: its workers have stopped.
  await redis.call(['DEL', `${digestsKey(young.hash, place.prefix)}:alive`])
  assert.equal(await keepCatalog(redis, old, place), false)
  await publishCatalog(redis, old, place)
  assert.deepEqual(
    [await keepCatalog(redis, old, place), (await readAsGateway(redis, place.prefix)).schema_hash],
    [true, old.hash],
  )
})

test('keepCatalog reports a catalog that Redis lost in whole or in part, so that it is published again', async (t) => {
  const redis = await engine.open(t)
  const written = await writtenOf(t, [add])
  for (const part of [':current', ':state', ':v1']) {
    const place = freshPlace()
    await publishCatalog(redis, written, place)
    assert.equal(await keepCatalog(redis, written, place), true)
    await redis.call(['DEL', `${place.prefix}${part}`])
    assert.equal(await keepCatalog(redis, written, place), false, part)
    await publishCatalog(redis, written, place)
    assert.equal(await keepCatalog(redis, written, place), true, part)
    assert.equal((await readAsGateway(redis, place.prefix)).schema_hash, written.hash)
  }
})

test('a pointer that another program changed is treated as another catalog, and does no harm', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const written = await writtenOf(t, [add])
  await publishCatalog(redis, written, place)
  await redis.call(['SET', `${place.prefix}:current`, "7' .. nonsense *"])
  assert.deepEqual(await publishCatalog(redis, written, place), { version: 2, fresh: true })
})

test('a tool that is too large is left out and reported, and the others are published', async (t) => {
  const large = toolOf('big:one', { description: 'x'.repeat(5_000) })
  const { leftOut, digests } = await writtenOf(t, [add, large, fetchIt], { toolBytes: 2_000 })
  assert.deepEqual([leftOut, [...digests.keys()].sort()], [['big:one'], ['math:add', 'web:fetch']])
  const many = Array.from({ length: 50 }, (_, index) => toolOf(`many:tool_${index}`))
  const full = await writtenOf(t, many, { totalBytes: 5_000 })
  assert.ok(full.bytes.length < 6_000)
  assert.equal(full.digests.size + full.leftOut.length, 50)
})

test('a catalog without tools can be published and kept', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const written = await writtenOf(t, [])
  await publishCatalog(redis, written, place)
  assert.equal(await keepCatalog(redis, written, place), true)
  assert.deepEqual((await readAsGateway(redis, place.prefix)).tools, [])
})

test('10,000 tools are published completely, without blocking the event loop', async (t) => {
  const redis = await engine.open(t)
  const place = freshPlace()
  const schema = { type: 'object', properties: { text: { type: 'string' }, count: { type: 'integer' } } }
  const tools = Array.from({ length: 10_000 }, (_, index) =>
    toolOf(`ns${index % 50}:tool_${index}`, { inputSchema: schema }),
  )
  let turns = 0
  let done = false
  const others = (async () => {
    for (; !done; turns += 1) await turn()
  })()
  const written = await writtenOf(t, tools)
  done = true
  await others
  await publishCatalog(redis, written, place)
  const read = await readAsGateway(redis, place.prefix)
  assert.deepEqual([read.tools.length, read.schema_hash, written.leftOut], [10_000, written.hash, []])
  assert.equal(Number(await redis.call(['HLEN', digestsKey(written.hash, place.prefix)])), 10_001)
  assert.ok(turns >= 100, `${turns} turns`)
  t.diagnostic(`${written.bytes.length} bytes, ${turns} turns`)
})

test('publishing fails while Redis is unavailable, and works when it is back', async (t) => {
  const redis = await engine.open(t)
  const server = await engine.server(t)
  const place = freshPlace()
  const written = await writtenOf(t, [add])
  server.kill()
  try {
    await assert.rejects(publishCatalog(redis, written, place), { code: 'STORE_UNAVAILABLE' })
  } finally {
    await server.restart()
  }
  const again = await engine.open(t)
  assert.equal((await publishCatalog(again, written, place)).fresh, true)
})
