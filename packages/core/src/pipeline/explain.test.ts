import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createExecutor } from '@gantry/tools'
import { memoryAudit } from '../audits/memory.ts'
import type { Rule } from '../policies/rules.ts'
import { alice, tool } from './pipeline.fixture.ts'

const numbers = { type: 'object', properties: { n: { type: 'number' } }, required: ['n'] } as const

function executor(rules: readonly Rule[], rest: Parameters<typeof tool>[1] = {}) {
  const audit = memoryAudit()
  const defined = tool(() => assert.fail('it ran'), { inputSchema: numbers as never, ...rest })
  const gantry = createExecutor({ tools: [defined], audit, identity: alice, policy: { rules, default: 'allow' } })
  return { gantry, audit }
}

test('explain returns the decision with its rule, reason and conditions, without running or auditing the call', async () => {
  const { gantry, audit } = executor([
    { deny: 'test:*', when: { '/n': { above: 10 } }, name: 'dear', reason: 'too dear' },
    { ask: 'test:it', roles: ['intern'], approvers: ['lead'], floor: 'container' },
    { unavailable: '*', tenants: ['asleep'] },
  ])
  const known = { tool: 'test:it:1.0.0', missing: [], exists: true, visible: true, valid: true }
  const about = (n: unknown, identity: object = {}) =>
    gantry.explain('test:it', { n }, { identity: { ...alice, ...identity } })
  assert.deepEqual(await about(1), { ...known, effect: 'allow', reason: 'Nothing forbids it.' })
  assert.deepEqual(await about(11), { ...known, effect: 'deny', reason: 'too dear', rule: 'dear' })
  assert.deepEqual(await about(1, { roles: ['intern'] }), {
    ...{ ...known, effect: 'ask', reason: 'A rule asks for approval.', rule: '/rules/1' },
    ...{ floor: 'container', approvers: ['lead'] },
  })
  assert.equal((await about(1, { tenant: 'asleep' })).effect, 'unavailable')
  assert.deepEqual([(await about('x')).valid, (await about('x')).effect], [false, 'deny'])
  assert.deepEqual(audit.records(), [])
})

test('explain names missing permissions, and reports a tool that needs approval for every call', async () => {
  const { gantry } = executor([], { permissions: ['a', 'files:read', 'b'], approval: 'always' })
  const without = await gantry.explain('test:it', { n: 1 })
  assert.deepEqual([without.effect, without.missing, without.visible], ['deny', ['a', 'b'], false])
  assert.equal(without.reason, 'The caller lacks the permissions a, b.')
  const held = await gantry.explain('test:it', { n: 1 }, { identity: { ...alice, permissions: ['*'] } })
  assert.deepEqual([held.effect, held.visible], ['ask', true])
})

test('explain covers only tools that exist for the asker', async () => {
  const { gantry } = executor([])
  const bound = { ...alice, tools: ['other:*'] }
  const explained = await gantry.explain('test:it', { n: 1 }, { identity: bound, asker: alice })
  assert.deepEqual([explained.exists, explained.visible, explained.effect], [false, false, 'deny'])
  await assert.rejects(gantry.explain('test:it', { n: 1 }, { identity: bound }), { code: 'TOOL_NOT_FOUND' })
  await assert.rejects(gantry.explain('test:it', { n: 1 }, { identity: alice, asker: bound }), {
    code: 'TOOL_NOT_FOUND',
  })
})
