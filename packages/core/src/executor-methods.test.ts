import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { memoryAudit } from './audits/memory.ts'
import { createExecutor } from './executor.ts'
import { alice, tool } from './pipeline/pipeline.fixture.ts'
import { rules } from './policies/rules.ts'

test('an executor with an additional policy never allows more, and does not change the original', async () => {
  const [one, other] = ['it', 'other'].map((name) => tool(() => name, { name }))
  assert.ok(one && other)
  const gantry = createExecutor({ tools: [one, other], policy: { rules: [{ allow: 'test:it' }] } })
  const wide = gantry.under({ policy: rules([{ allow: '*' }]) })
  const narrow = wide.under({ policy: rules([{ deny: 'test:it' }], { default: 'allow' }) })
  const statuses = async (name: string) => {
    const results = await Promise.all([gantry, wide, narrow].map((executor) => executor.run(`test:${name}`)))
    return results.map(({ status }) => status)
  }
  assert.deepEqual(await statuses('it'), ['ok', 'ok', 'denied'])
  assert.deepEqual(await statuses('other'), ['denied', 'denied', 'denied'])
  assert.deepEqual(
    [gantry, wide, narrow].map((executor) => executor.tools().items.length),
    [1, 1, 0],
  )
  await narrow.close()
  assert.equal((await gantry.run('test:it')).error?.code, 'BACKEND_UNAVAILABLE')
})

test('a chain keeps the policy and audit log that it started with for all its calls', async () => {
  const gate = Promise.withResolvers<void>()
  const inner = tool(() => 'inner', { name: 'inner' })
  const wait = tool(() => gate.promise, { name: 'wait' })
  const gantry = createExecutor({ tools: [inner, wait] })
  const [before, after] = [memoryAudit(), memoryAudit()]
  const old = gantry.under({ audit: before })
  const running = old.chain([{ tool: 'test:wait' }, { tool: 'test:inner' }])
  const next = gantry.under({ policy: rules([{ deny: 'test:inner' }], { default: 'allow' }), audit: after })
  const refused = await next.chain([{ tool: 'test:inner' }])
  gate.resolve()
  assert.deepEqual([(await running).status, refused.status], ['ok', 'denied'])
  const tools = (audit: typeof before) => audit.records().map((record) => `${record.phase} ${record.tool}`)
  assert.deepEqual(tools(after), ['end test:inner:1.0.0'])
  assert.equal(tools(before).filter((text) => text.endsWith('inner:1.0.0')).length, 2)
  await gantry.close()
})

test('executors that share a core share slots, later tools and close', async () => {
  let started = 0
  const gate = Promise.withResolvers<void>()
  const slow = tool(
    () => {
      started += 1
      return gate.promise
    },
    { concurrency: 1 },
  )
  const gantry = createExecutor({ tools: [slow] })
  const other = gantry.under({ policy: rules([{ allow: '*' }]) })
  const first = other.run('test:it')
  assert.equal((await gantry.run('test:it', {}, { timeoutMs: 20 })).error?.code, 'TIMEOUT')
  assert.equal(started, 1)
  gate.resolve()
  assert.equal((await first).status, 'ok')
  gantry.register(tool(() => 1, { namespace: 'late' }))
  assert.equal((await other.run('late:it')).output, 1)
  await gantry.close()
})

test('the hash for a caller changes only with the tools that are visible to it', async () => {
  const gantry = createExecutor({ tools: [tool(() => 1)] })
  const bound: Identity = { ...alice, tools: ['test:*'] }
  const first = gantry.hashFor(bound)
  assert.match(first, /^[0-9a-f]{64}$/)
  assert.equal(gantry.hashFor(), gantry.catalog.hash)
  gantry.register(tool(() => 1, { namespace: 'theirs' }))
  gantry.register(tool(() => 1, { name: 'guarded', permissions: ['x'] }))
  assert.equal(gantry.hashFor(bound), first)
  assert.notEqual(gantry.hashFor(), first)
  gantry.update(tool(() => 1, { description: 'Another.' }))
  assert.notEqual(gantry.hashFor(bound), first)
  await gantry.close()
})

test('a default of allow still requires the permissions and the approval that a tool declares', async () => {
  const guarded = tool(() => 1, { permissions: ['deploy'] })
  const asking = tool(() => 1, { name: 'asking', approval: 'always' })
  const policy = { rules: [], default: 'allow' } as const
  const gantry = createExecutor({ tools: [guarded, asking], policy, identity: alice })
  assert.match((await gantry.run('test:it')).error?.message ?? '', /lacks the permission deploy/)
  assert.equal((await gantry.run('test:asking')).error?.code, 'APPROVAL_REQUIRED')
  assert.deepEqual(
    gantry.tools().items.map(({ key }) => key),
    ['test:asking'],
  )
  const holder = { ...alice, permissions: ['deploy'] }
  assert.equal((await gantry.run('test:it', {}, { identity: holder })).status, 'ok')
  await gantry.close()
})

test('a tool is visible, hidden or absent for a caller', async () => {
  const open = tool(() => 1, { name: 'open', aliases: ['test:known_as'] })
  const versions = ['1.0.0', '2.0.0'].map((version) => tool(() => 1, { name: 'priv', version, permissions: [version] }))
  const gantry = createExecutor({ tools: [open, ...versions] })
  const of = (id: string, given: Partial<Identity> = {}) =>
    gantry.visibility(id, { identity: { ...alice, permissions: [], ...given } })
  assert.deepEqual(
    ['test:open', 'test:known_as', 'test:open:1.0.0', 'code:program:1.0.0'].map((id) => of(id)),
    ['visible', 'visible', 'visible', 'visible'],
  )
  assert.deepEqual([of('test:priv'), of('test:priv:1.0.0')], ['hidden', 'hidden'])
  const first = { permissions: ['1.0.0'] }
  assert.deepEqual(
    [of('test:priv', first), of('test:priv:1.0.0', first), of('test:priv:2.0.0', first)],
    ['visible', 'visible', 'hidden'],
  )
  const bound = { tools: ['test:priv:2.0.0', 'gone:*'] }
  assert.deepEqual(
    ['test:open', 'test:known_as', 'test:priv', 'test:priv:1.0.0', 'gone:tool:1.0.0', 'other:tool', ''].map((id) =>
      of(id, bound),
    ),
    ['absent', 'absent', 'hidden', 'absent', 'hidden', 'absent', 'absent'],
  )
  // The permissions of a tool outside of the catalog are unknown.
  assert.deepEqual([of('gone:tool'), of('test:open:9.0.0'), of('no id')], ['hidden', 'hidden', 'hidden'])
  await gantry.close()
})
