import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fakeContext, fakeHost, testBackend } from '@gantry/conformance/internal/backend'
import type { HttpBinding, Tool, ToolError } from '@gantry/contract'
import { createEgressGuard } from '../egress/guard.ts'
import { openWorld, sendJson, toolWith } from './http/server.fixture.ts'
import { http } from './http.ts'

function bound(name: string, path: string): Tool {
  return toolWith({ kind: 'http', name: 'api', path }, { name })
}

testBackend('http', async () => {
  const world = await openWorld(({ target }, response) => {
    const [, tool, a, b] = target.split('/')
    if (tool === 'add') sendJson(response, { result: Number(a) + Number(b) })
    else if (tool === 'fail') sendJson(response, { message: 'it broke' }, 422)
  })
  return {
    backend: world.backend,
    add: bound('add', '/add/{a}/{b}'),
    fail: bound('fail', '/fail'),
    wait: bound('wait', '/wait'),
    close: world.close,
  }
})

test('invalid options are refused with every path and a suggestion', () => {
  const wrong = { name: '', baseUrl: 'ftp://x', redirect: 1, auth: { type: 'bearer' }, headers: { Host: 'x' } }
  assert.throws(
    () => http(wrong as unknown as Parameters<typeof http>[0]),
    (error: ToolError) => {
      const paths = error.details?.issues?.map(({ path }) => path)
      assert.deepEqual(paths, ['/redirect', '/name', '/baseUrl', '/auth/token', '/headers/Host'])
      assert.match(error.message, /did you mean "redirects"/)
      return error.code === 'CONFIG_INVALID'
    },
  )
  for (const baseUrl of ['https://u:p@h/', 'https://h/?a=1', 'https://h/#x', 'file:///etc', 'not a url']) {
    assert.throws(() => http({ name: 'x', baseUrl }), { code: 'CONFIG_INVALID' }, baseUrl)
  }
})

test('a call before attach or after close fails with BACKEND_UNAVAILABLE', async () => {
  const backend = http({ name: 'x', baseUrl: 'https://example.com' })
  const tool = bound('t', '/')
  const call = { id: 'test:t:1.0.0', tool, args: {}, binding: tool.backends[0] ?? {} }
  await assert.rejects(async () => backend.call(call, fakeContext()), { code: 'BACKEND_UNAVAILABLE' })
  const egress = createEgressGuard()
  backend.attach?.(fakeHost(egress))
  await backend.close?.(AbortSignal.timeout(1_000))
  await assert.rejects(async () => backend.call(call, fakeContext()), { code: 'BACKEND_UNAVAILABLE' })
  await egress.close()
})

test('discover publishes the tools in its namespace, bound to it by name', async () => {
  const egress = createEgressGuard()
  const host = fakeHost(egress)
  const tool = toolWith({ kind: 'http', path: '/x' })
  const backend = http({ name: 'shop', baseUrl: 'https://example.com', tools: [tool] })
  backend.attach?.(host)
  await backend.discover?.(AbortSignal.timeout(1_000))
  const [[published] = []] = host.published
  assert.equal(published?.namespace, 'shop')
  assert.deepEqual(published?.backends, [{ kind: 'http', path: '/x', name: 'shop' }])
  assert.equal(http({ name: 'x', baseUrl: 'https://example.com' }).discover, undefined)
  await egress.close()
})

test('health is up unless the server fails or is unreachable', async (t) => {
  let status = 401
  const world = await openWorld((_request, response) => response.writeHead(status).end(), {
    http: { healthPath: 'up' },
  })
  t.after(world.close)
  const health = async () => world.backend.health?.(AbortSignal.timeout(5_000))
  assert.deepEqual(await health(), { status: 'up' })
  assert.deepEqual([world.seen[0]?.method, world.seen[0]?.target], ['HEAD', '/up'])
  status = 500
  assert.deepEqual(await health(), { status: 'down', message: 'The server answered 500.' })
  await world.close()
  assert.equal((await health())?.status, 'down')
})

test('an invalid binding is refused at its first call, with the failing path', async (t) => {
  const world = await openWorld((_request, response) => sendJson(response, {}))
  t.after(world.close)
  const wrong: [binding: object, path: string][] = [
    [{ path: '/a?b=1' }, '/path'],
    [{ path: '/a/../b' }, '/path'],
    [{ path: '/a/{b' }, '/path'],
    [{ path: '/a', method: 'CONNECT' }, '/method'],
    [{ path: '/a', params: { x: { in: 'path' } } }, '/params/x'],
    [{ path: '/{x}', params: { x: { in: 'query' } } }, '/path'],
    [{ path: '/a', params: { x: { in: 'query', style: 'matrix' } } }, '/params/x'],
    [{ path: '/a', params: { x: { in: 'header', name: 'Transfer-Encoding' } } }, '/params/x'],
    [{ path: '/a', params: { Authorization: { in: 'header' } } }, '/params/Authorization'],
    [{ path: '/a', headers: { 'X-A': 'b\r\nX-B: c' } }, '/headers/X-A'],
    [{ path: '/a', headers: { Connection: 'close' } }, '/headers/Connection'],
    [{ path: '/a', body: { type: 'binary' } }, '/body/arg'],
    [{ path: '/a', auth: [{ type: 'oauth' }] }, '/auth/0/type'],
    [{ path: '/a', respons: 'json' }, '/respons'],
  ]
  for (const [binding, path] of wrong) {
    await assert.rejects(
      world.call(binding as HttpBinding),
      (error: ToolError) => error.code === 'CONFIG_INVALID' && error.details?.issues?.[0]?.path === path,
      JSON.stringify(binding),
    )
  }
  assert.equal(world.seen.length, 0)
  await world.call(
    { path: '/a', params: { Authorization: { in: 'header', name: 'Authorization' } } },
    { Authorization: 'x' },
  )
  assert.equal(world.seen[0]?.headers.authorization, 'x')
})

test('a call to an origin outside the egress list of its tool fails with EGRESS_DENIED', async (t) => {
  const world = await openWorld((_request, response) => sendJson(response, {}))
  t.after(world.close)
  const tool = toolWith({ kind: 'http', path: '/' }, { egress: ['https://elsewhere.example'] })
  const call = { id: 'test:tool:1.0.0', tool, args: {}, binding: tool.backends[0] ?? {} }
  await assert.rejects(async () => world.backend.call(call, fakeContext()), { code: 'EGRESS_DENIED' })
  assert.equal(world.seen.length, 0)
})
