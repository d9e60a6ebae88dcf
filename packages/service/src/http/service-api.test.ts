import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, type Result, ToolError } from '@gantry/contract'
import { defineTool } from '@gantry/core'
import { tenantTools } from '@gantry/core/internal/policies/tenant-tools'
import { createExecutor } from '@gantry/tools'
import { createWaiters } from '../reply/waiters.ts'
import { stub } from '../stub.fixture.ts'
import { createServiceApi, type ServiceApiParts } from './service-api.ts'

const ada: Identity = { principal: 'ada', tenant: 'acme', permissions: [] }
const never = new AbortController().signal
const noop = (): null => null
const outcome = stub<Result>({ status: 'ok' })

function apiWith(get: ServiceApiParts['views']['get']) {
  const waiters = createWaiters(async () => new Map())
  const api = createServiceApi(stub<ServiceApiParts>({ waiters, views: { get } }))
  return { api, waiters }
}

test('waiting for a call that does not exist, or is another tenant’s, leaves no waiter', async () => {
  const { api, waiters } = apiWith(() => Promise.reject(new ToolError('NOT_FOUND', 'There is no such call.')))
  await assert.rejects(api.wait('nope', ada, 60_000, never), /no such call/)
  assert.equal(waiters.size, 0)
})

test('a call is cancelled only by its own principal and by operators', async () => {
  const cancelled: unknown[] = []
  const notes: unknown[] = []
  const api = createServiceApi(
    stub<ServiceApiParts>({
      views: { get: async () => ({ principal: 'ada', state: 'queued' }) },
      store: {
        async cancel(...call: unknown[]) {
          cancelled.push(call)
          return 'ended'
        },
      },
      note: async (note: unknown) => void notes.push(note),
    }),
  )
  const bob: Identity = { ...ada, principal: 'bob' }
  await assert.rejects(api.cancel('c1', bob), { code: 'DENIED' })
  assert.deepEqual([cancelled, notes], [[], []])
  await api.cancel('c1', ada)
  await api.cancel('c2', { ...bob, permissions: ['gantry:operate'] })
  assert.deepEqual(cancelled, [
    ['c1', 'acme'],
    ['c2', 'acme'],
  ])
  assert.equal(notes.length, 2)
})

test('circuits are visible only to callers who can see their tools', async (t) => {
  const tool = (namespace: string, name: string, version = '1.0.0') =>
    defineTool({
      namespace,
      name,
      version,
      description: 'It.',
      effect: 'read',
      inputSchema: { type: 'object' },
      run: noop,
    })
  const executor = createExecutor({
    tools: [tool('demo', 'add'), tool('demo', 'add', '2.0.0'), tool('pay', 'wire')],
    policy: tenantTools({ acme: ['pay:*', 'gone:*'], globex: ['demo:*'] }),
  })
  t.after(() => executor.close({ graceMs: 1 }))
  const names = ['demo:add @ http:one', 'pay:wire @ http:acmepay', 'gone:tool @ mcp:far']
  const states = () => names.map((circuit) => ({ circuit, key: circuit }))
  const api = createServiceApi(
    stub<ServiceApiParts>({
      circuits: { states },
      snapshots: { current: { executor } },
    }),
  )
  const keysFor = (as: Identity): string[] => api.circuits(as).map(({ key }) => key)
  const globex: Identity = { principal: 'gus', tenant: 'globex', permissions: ['gantry:operate'] }
  assert.deepEqual(keysFor(globex), ['demo:add @ http:one'])
  assert.deepEqual(keysFor({ ...globex, tools: ['demo:add:1.0.0'] }), ['demo:add @ http:one'])
  assert.deepEqual(keysFor({ ...globex, tools: ['demo:add:3.0.0', 'pay:*', 'gone:*'] }), [])
  // The name decides for a tool that is not in the catalog yet, because its backend was not discovered.
  assert.deepEqual(keysFor(ada), ['pay:wire @ http:acmepay', 'gone:tool @ mcp:far'])
  assert.deepEqual(keysFor({ ...ada, tools: ['pay:*'] }), ['pay:wire @ http:acmepay'])
})

test('the state of a circuit for other tenants is visible only with gantry:tenants', async (t) => {
  const run = noop
  const tool = defineTool({ namespace: 'demo', name: 'add', description: 'It.', inputSchema: { type: 'object' }, run })
  const executor = createExecutor({ tools: [tool] })
  t.after(() => executor.close({ graceMs: 1 }))
  const counts = { since: 1, calls: 5, failures: 5, openMs: 1 }
  const circuit = 'demo:add @ http:one'
  const states = () =>
    ['acme', 'globex'].map((tenant) => ({ ...counts, circuit, tenant, key: '', state: 'open', retryAt: 2 }))
  const api = createServiceApi(
    stub<ServiceApiParts>({
      circuits: { states },
      snapshots: { current: { executor } },
    }),
  )
  const seenBy = (permissions: readonly string[]) =>
    api
      .circuits({ principal: 'gus', tenant: 'globex', permissions })
      .map(({ state, tenants }) => [state, ...tenants.map(({ tenant }) => tenant)])
  assert.deepEqual(seenBy(['gantry:operate']), [['open', 'globex']])
  assert.deepEqual(seenBy(['gantry:operate', 'gantry:tenants']), [['closed', 'acme', 'globex']])
})

test('wait returns an outcome that preceded it', async () => {
  const { api, waiters } = apiWith(async () => ({ result: outcome }) as never)
  assert.equal(await api.wait('done', ada, 60_000, never), outcome)
  assert.equal(waiters.size, 0)
})
