import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { HttpBinding, JsonObject, Tool, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { openWorld, sendJson } from './server.fixture.ts'

const echo = (_request: unknown, response: Parameters<typeof sendJson>[0]): void => sendJson(response, { ok: true })

/** Texts that attack a URL, a header or a body, among any others. */
const nasty = fc.oneof(
  fc.constantFrom(
    '.',
    '..',
    '../..',
    '%2e%2e',
    '%2F',
    '/',
    '//evil.example',
    '\\',
    '?a=b',
    '#x',
    '&x=y',
    'a;b',
    '\0',
    '',
  ),
  fc.constantFrom(
    '\r\nX-Evil: 1',
    'a\nb',
    '{id}',
    'secret:canary',
    '@evil.example',
    ' a',
    '\t',
    '=',
    '+',
    '%',
    '\u2028',
  ),
  fc.string({ unit: 'binary' }),
)

test('any argument values arrive unchanged and cannot alter the fixed parts of the path', async (t) => {
  const world = await openWorld(echo, { basePath: '/v1' })
  t.after(world.close)
  const binding: Omit<HttpBinding, 'kind'> = {
    method: 'POST',
    path: '/items/{id}/end',
    params: { q: { in: 'query' }, r: { in: 'query', allowReserved: true }, c: { in: 'cookie' } },
    query: { fixed: 'yes' },
    response: 'json',
  }
  await fc.assert(
    fc.asyncProperty(nasty, nasty, nasty, nasty, nasty, async (id, q, r, c, rest) => {
      world.seen.length = 0
      const called = world.call(binding, { id, q, r, c, rest })
      if (id === '' || id === '.' || id === '..') {
        await assert.rejects(called, { code: 'INPUT_INVALID' })
        return assert.equal(world.seen.length, 0)
      }
      await called
      const [request] = world.seen
      const [path = '', query = ''] = request?.target.split(/\?(.*)/s) ?? []
      const parts = path.split('/')
      assert.deepEqual([parts.length, parts[1], parts[2], parts[4]], [5, 'v1', 'items', 'end'])
      assert.equal(decodeURIComponent(parts[3] ?? ''), id)
      const pairs = query
        .split('&')
        .map((pair) => [pair.split('=')[0], decodeURIComponent(pair.slice(pair.indexOf('=') + 1))])
      assert.deepEqual(pairs, [
        ['q', q],
        ['r', r],
        ['fixed', 'yes'],
      ])
      assert.equal(decodeURIComponent(request?.headers.cookie?.slice(2) ?? ''), c)
      assert.deepEqual(JSON.parse(request?.body.toString() ?? ''), { rest })
      assert.equal(request?.headers['x-evil'], undefined)
    }),
    { numRuns: 150 },
  )
})

test('a header argument arrives unchanged or is refused', async (t) => {
  const world = await openWorld(echo)
  t.after(world.close)
  const binding = { path: '/', params: { h: { in: 'header', name: 'X-Value' } }, response: 'json' } as const
  let [sent, refused] = [0, 0]
  await fc.assert(
    fc.asyncProperty(fc.oneof(nasty, fc.string()), async (h) => {
      world.seen.length = 0
      const error = await world.call(binding, { h }).then(
        () => undefined,
        (thrown: ToolError) => thrown,
      )
      if (error === undefined) {
        sent += 1
        return assert.equal(world.seen[0]?.headers['x-value'], h)
      }
      refused += 1
      assert.deepEqual([error.code, error.details?.issues?.[0]?.path], ['INPUT_INVALID', '/h'])
      assert.equal(world.seen.length, 0)
    }),
    { numRuns: 150 },
  )
  assert.ok(sent > 20 && refused > 20)
  await world.call(binding, { h: [1, 'b'] })
  assert.equal(world.seen.at(-1)?.headers['x-value'], '1,b')
})

test('dot segments composed from several arguments or styles are refused', async (t) => {
  const world = await openWorld(echo)
  t.after(world.close)
  await assert.rejects(world.call({ path: '/x/{a}{b}/y' }, { a: '.', b: '.' }), { code: 'INPUT_INVALID' })
  await assert.rejects(world.call({ path: '/x/%2e{a}/y' }, { a: '.' }), { code: 'INPUT_INVALID' })
  const label = { path: '/x/{a}', params: { a: { in: 'path', style: 'label' } } } as const
  await assert.rejects(world.call(label, { a: '.' }), { code: 'INPUT_INVALID' })
  await assert.rejects(world.call({ path: '/x/{a}' }, {}), { code: 'INPUT_INVALID' })
  await assert.rejects(world.call({ path: '/x/{toString}' }, {}), { code: 'INPUT_INVALID' })
  assert.equal(world.seen.length, 0)
})

test('unbound arguments go into the query of GET and DELETE, and into the body of other methods', async (t) => {
  const world = await openWorld(echo)
  t.after(world.close)
  const args: JsonObject = { id: 7, word: 'a b', list: [1, 2], where: { x: 1 } }
  const query = 'word=a%20b&list=1&list=2&where%5Bx%5D=1'
  for (const method of ['GET', 'DELETE']) {
    await world.call({ method, path: '/{id}' }, args)
    assert.equal(world.seen.at(-1)?.target, `/7?${query}`)
  }
  await world.call({ method: 'patch', path: '/{id}' }, args)
  assert.equal(world.seen.at(-1)?.method, 'PATCH')
  assert.deepEqual(JSON.parse(world.seen.at(-1)?.body.toString() ?? ''), { word: 'a b', list: [1, 2], where: { x: 1 } })
  await world.call({ method: 'POST', path: '/{id}' }, { id: 1 })
  assert.equal(world.seen.at(-1)?.body.length, 0)
  const whole = { method: 'PUT', path: '/', body: { type: 'json', arg: 'doc' } } as const
  await assert.rejects(world.call(whole, { doc: {}, unbound: 1 }), /\/unbound is not bound to any part of the request/)
})

test('a parameter may have another name than its argument', async (t) => {
  const world = await openWorld(echo)
  t.after(world.close)
  const params = { path_id: { in: 'path', name: 'id' }, id: { in: 'query' } } as const
  await world.call({ path: '/x/{id}', params }, { path_id: 'p', id: 'q' })
  assert.equal(world.seen[0]?.target, '/x/p?id=q')
})

test('an argument cannot repeat a query parameter that the configuration sets', async (t) => {
  const world = await openWorld(echo, {
    http: { auth: { type: 'query', name: 'key', value: 'secret:k' }, query: { 'api version': '1' } },
  })
  t.after(world.close)
  await assert.rejects(world.call({ path: '/' }, { key: 'mine' }), { code: 'INPUT_INVALID' })
  const exploded = { path: '/', params: { o: { in: 'query' } } } as const
  await assert.rejects(world.call(exploded, { o: { 'api version': '2' } }), { code: 'INPUT_INVALID' })
  assert.equal(world.seen.length, 0)
  await world.call({ path: '/' }, { other: 'mine' })
  assert.equal(world.seen[0]?.target, '/?other=mine&api%20version=1&key=value-of-k')
})

test('every attempt of an unsafe method sends the same idempotency key, and GET sends none', async (t) => {
  const world = await openWorld(echo)
  t.after(world.close)
  for (const attempt of [1, 2])
    await world.call({ method: 'POST', path: '/' }, {}, { attempt, idempotencyKey: 'order-1' })
  await world.call({ method: 'DELETE', path: '/' }, {}, { idempotencyKey: 'a\r\nb é' })
  await world.call({ method: 'GET', path: '/' })
  await world.call({ method: 'POST', path: '/', idempotencyHeader: false })
  await world.call({ method: 'POST', path: '/', idempotencyHeader: 'X-Request-Id' })
  const keys = world.seen.map(({ headers }) => headers['idempotency-key'])
  assert.deepEqual(keys, ['order-1', 'order-1', 'a%0D%0Ab%20%C3%A9', undefined, undefined, undefined])
  assert.equal(world.seen.at(-1)?.headers['x-request-id'], 'call-1')
})

test('an argument cannot replace a configured header, credentials or the idempotency key', async (t) => {
  const world = await openWorld((_request, response) => sendJson(response, {}), {
    http: { headers: { 'X-Api-Key': 'secret:k' }, auth: { type: 'bearer', token: 'secret:t' } },
  })
  t.after(world.close)
  for (const name of ['x-api-key', 'Authorization', 'Idempotency-Key']) {
    const binding = { path: '/', method: 'POST', params: { it: { in: 'header', name } } } as const
    await assert.rejects(world.call(binding, { it: 'mine' }), { code: 'INPUT_INVALID' }, name)
  }
  assert.equal(world.seen.length, 0)
  await world.call({ path: '/', method: 'POST', params: { it: { in: 'header', name: 'X-Other' } } }, { it: 'mine' })
  assert.equal(world.seen[0]?.headers['x-other'], 'mine')
})

test('the path / keeps its slash below a base path', async () => {
  const world = await openWorld((_request, response) => response.end('{}'), { basePath: '/v1' })
  await world.call({ path: '/' })
  await world.call({ path: '' })
  assert.deepEqual(
    world.seen.map(({ target }) => target),
    ['/v1/', '/v1'],
  )
  await world.close()
})

test('a binding may use another base URL only when the configuration lists its origin', async () => {
  const other = await openWorld((_request, response) => response.end('{}'))
  const world = await openWorld((_request, response) => response.end('{}'), { http: { origins: [other.origin] } })
  await world.call({ path: '/x', baseUrl: `${other.origin}/up` })
  assert.deepEqual([world.seen.length, other.seen.map(({ target }) => target)], [0, ['/up/x']])
  const strange = { kind: 'http', path: '/x', baseUrl: 'https://elsewhere.example' } as const
  const tool = { namespace: 'test', name: 'tool' } as Tool
  assert.throws(() => world.backend.check?.(strange, tool), { code: 'CONFIG_INVALID' })
  await world.close()
  await other.close()
})
