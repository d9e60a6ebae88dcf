import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'node:test'
import { createRuntimes } from '@gantry/sandbox'
import { createLanguages } from '@gantry/sandbox/internal/languages/languages'
import { createSessions } from '@gantry/sandbox/internal/sessions/sessions'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import { fakeRuntime } from '../../../sandbox/src/runtimes/fake.fixture.ts'
import { here, serve } from '../egress/egress.fixture.ts'
import { defineTool } from '../tools/tool.ts'
import { http } from './http.ts'

const identityOf = (tenant: string) => ({ principal: 'ada', tenant, permissions: ['*'] })

test('hanging calls of one tenant leave connections to the origin for other tenants', {
  timeout: 20_000,
}, async (t) => {
  const held: ServerResponse[] = []
  const server = await serve(
    t,
    ({ url }, response) => void (url === '/hang' ? held.push(response) : response.end('ok')),
  )
  const tool = (name: string) =>
    defineTool({
      ...{ namespace: 'api', name, description: 'Reads.', inputSchema: { type: 'object' }, effect: 'read' },
      backends: [{ kind: 'http', name: 'api', method: 'GET', path: `/${name}` }],
    })
  const gantry = createExecutor({
    tools: [...builtinTools(), tool('hang'), tool('quick')],
    backends: [http({ name: 'api', baseUrl: server.origin, private: true })],
    egress: { allow: here(server), maxConnectionsPerOrigin: 4 },
  })
  t.after(() => gantry.close({ graceMs: 0 }))
  const quick = async (tenant: string): Promise<readonly string[]> => {
    const identity = identityOf(tenant)
    const fetched = await gantry.run('http:fetch', { url: `${server.origin}/` }, { identity })
    const called = await gantry.run('api:quick', {}, { identity })
    return [fetched.status, called.status]
  }
  const stop = new AbortController()
  const options = { identity: identityOf('acme'), signal: stop.signal }
  const hung = Array.from({ length: 6 }, () => [
    gantry.run('http:fetch', { url: `${server.origin}/hang` }, options),
    gantry.run('api:hang', {}, options),
  ]).flat()
  while (held.length < 3) await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(await quick('umbrella'), ['ok', 'ok'])
  assert.equal(held.length, 3, 'three quarters')
  stop.abort()
  assert.deepEqual(new Set((await Promise.all(hung)).map(({ status }) => status)), new Set(['cancelled']))
  assert.deepEqual(await quick('acme'), ['ok', 'ok'])
})

test('the egress of a sandbox belongs to the tenant of its call', async () => {
  const runtime = fakeRuntime()
  const runner = createRuntimes({ runtimes: [runtime], pool: false })
  const runtimes = { ...runner, languages: createLanguages(), sessions: createSessions(runner) }
  const gantry = createExecutor({ tools: builtinTools(), runtimes, egress: { allow: ['https://a.example'] } })
  const network = { allow: ['https://a.example'] }
  const args = { language: 'javascript', code: '1', network }
  await gantry.run('code:run', args, { identity: identityOf('acme') })
  await gantry.close()
  assert.deepEqual(
    runtime.sandboxes.map(({ spec }) => spec.dial?.tenant),
    ['acme'],
  )
})
