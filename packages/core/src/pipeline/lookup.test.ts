import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { createExecutor } from '../executor.ts'
import type { ExecutorOptions } from '../executor-options.ts'
import { alice, runIt, tool } from './pipeline.fixture.ts'

test('a call with an outdated schemaDigest is refused with CATALOG_STALE', async () => {
  const gantry = createExecutor({ tools: [tool(() => 1)] })
  const { digest } = gantry.catalog.find('test:it')
  assert.equal((await gantry.run('test:it', {}, { schemaDigest: digest })).status, 'ok')
  assert.equal((await gantry.run('test:it', {}, { schemaDigest: 'other' })).error?.code, 'CATALOG_STALE')
})

test('a deprecated tool runs with a warning that names its replacement', async () => {
  const result = await runIt(tool(() => 1, { deprecated: { message: 'Old.', replacement: 'test:new' } }))
  assert.equal(result.status, 'ok')
  assert.equal(result.warnings[0]?.code, 'DEPRECATED')
  assert.match(result.warnings[0]?.message ?? '', /test:new/)
})

test('a hidden tool is not among the nearest names', async () => {
  const hidden = tool(() => 1, { permissions: ['secret'] })
  const gantry = createExecutor({ tools: [hidden], identity: alice })
  for (const id of ['test:itt', 'test:it:9.9.9']) {
    const { error } = await gantry.run(id)
    assert.equal(error?.code, 'TOOL_NOT_FOUND')
    assert.deepEqual(error?.details, { nearest: [] }, id)
    assert.ok(!/test:it\b(?!t|:9)/.test(error?.message ?? ''))
  }
  assert.deepEqual((await gantry.run('test:itt', {}, { identity: { ...alice, permissions: ['*'] } })).error?.details, {
    nearest: ['test:it'],
  })
})

/** Every answer that a caller can get about a tool, without the parts that differ from call to call. */
async function everything(options: ExecutorOptions, identity: Identity, id: string): Promise<unknown> {
  const gantry = createExecutor(options)
  const thrown = (error: unknown): unknown => {
    assert.ok(ToolError.is(error))
    return { code: error.code, message: error.message, details: error.details, retryable: error.retryable }
  }
  const said = async (work: () => unknown): Promise<unknown> => {
    try {
      return await work()
    } catch (error) {
      return thrown(error)
    }
  }
  const { error, warnings, tool: found } = await gantry.run(id, {}, { identity })
  const digest = await gantry.run(id, {}, { identity, schemaDigest: 'x' })
  const chain = await gantry.chain([{ tool: id, args: {} }], { identity })
  const all = {
    run: { error, warnings, found },
    digest: digest.error,
    chain: chain.error,
    check: await said(() => gantry.check(id, {}, { identity })),
    describe: await said(() => gantry.describe(id, { identity })),
    explain: await said(() => gantry.explain(id, {}, { identity })),
    find: await said(() => gantry.find(id, { identity }).id),
    search: await gantry.search('theirs secret it', { identity, limit: 1 }),
    tools: gantry.tools({ identity, allVersions: true }).items.map(({ id: key }) => key),
    hash: gantry.hashFor(identity),
  }
  await gantry.close()
  return all
}

const own = tool(() => 1, { namespace: 'mine', name: 'it' })
const theirs = [
  tool(() => 1, { namespace: 'theirs', name: 'secret', aliases: ['mine:alias'] }),
  tool(() => 1, { namespace: 'theirs', name: 'secret', version: '2.0.0', permissions: ['x'] }),
  tool(() => 1, { namespace: 'mine2', name: 'it', deprecated: { message: 'Old.' } }),
]
const asked = ['theirs:secret', 'theirs:secret:1.0.0', 'theirs:secret:9', 'theirs:secret:^^', 'theirs:secre']
const near = ['mine2:it', 'mine3:it', 'mine:alias', 'mine:alias:1.0.0', 'mine:itt', 'other:it', 'mine:it']

for (const [how, identity, policy] of [
  ["by the identity's tool patterns", { ...alice, tools: ['mine:*'] }, undefined],
  ['by the policy', alice, { decide: () => ({ effect: 'allow' }), exists: (_, { namespace }) => namespace === 'mine' }],
] as const satisfies readonly (readonly [string, Identity, ExecutorOptions['policy']])[]) {
  test(`a tool that is hidden ${how} gets the same answers as one that does not exist`, async () => {
    const rest = policy === undefined ? {} : { policy }
    for (const id of [...asked, ...near]) {
      const hidden = await everything({ tools: [own, ...theirs], ...rest }, identity, id)
      assert.deepEqual(hidden, await everything({ tools: [own], ...rest }, identity, id), id)
    }
    const seen = await everything({ tools: [own, ...theirs] }, { ...alice, permissions: ['*'] }, 'theirs:secret')
    assert.notDeepEqual(seen, await everything({ tools: [own, ...theirs], ...rest }, identity, 'theirs:secret'))
  })
}

test('an id without a version means the newest version that is visible to the caller', async () => {
  const versions = ['1.0.0', '2.0.0'].map((version) => tool(() => version, { version }))
  const gantry = createExecutor({ tools: versions })
  assert.equal((await gantry.run('test:it')).output, '2.0.0')
  const bound = { ...alice, tools: ['test:it:1.0.0'] }
  assert.equal((await gantry.run('test:it', {}, { identity: bound })).output, '1.0.0')
  assert.equal((await gantry.run('test:it')).output, '2.0.0')
  assert.deepEqual((await gantry.describe('test:it', { identity: bound, level: 'full' })).versions, ['1.0.0'])
  const { error } = await gantry.run('test:it:^2', {}, { identity: bound })
  assert.equal(error?.message, 'No version matches "test:it:^2"; there are 1.0.0.')
})

test('a failed discovery is reported only to callers that may see tools of the backend', async () => {
  const backend = {
    ...{ kind: 'test', name: 'theirs', call: () => undefined },
    discover: () => Promise.reject(new Error('it is down')),
  }
  const gantry = createExecutor({ backends: [backend] })
  const ask = async (identity: Identity) => {
    const [run, found] = [await gantry.run('theirs:it', {}, { identity }), await gantry.search('it', { identity })]
    return [run.error?.code, found.warning?.code]
  }
  assert.deepEqual(await ask(alice), ['BACKEND_UNAVAILABLE', 'BACKEND_UNAVAILABLE'])
  assert.deepEqual(await ask({ ...alice, tools: ['mine:*'] }), ['TOOL_NOT_FOUND', undefined])
  await assert.rejects(gantry.describe('theirs:it', { identity: { ...alice, tools: ['mine:*'] } }), {
    code: 'TOOL_NOT_FOUND',
  })
})
