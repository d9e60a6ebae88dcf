import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { toolScope } from './tool-visibility.ts'

const tool = { namespace: 'gh', name: 'issue', version: '1.0.0' }
const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['*'] }

test('an identity bound to tools sees only those, and an unbound identity sees all', () => {
  const there = toolScope(undefined)
  assert.equal(there(bob, tool), true)
  for (const tools of [['gh:*'], ['GH:Issue'], ['x:y', 'gh:is*'], ['*'], ['gh:issue:1.0.0']]) {
    assert.equal(there({ ...bob, tools }, tool), true, tools.join())
  }
  for (const tools of [['gh:issues'], ['g:*'], ['gh:issue:2.0.0']]) {
    assert.equal(there({ ...bob, tools }, tool), false, tools.join())
  }
})

test('an invalid or empty list of patterns hides every tool', () => {
  const there = toolScope(undefined)
  for (const tools of [[], ['gh'], ['*', ''], ['gh:*', '*:*'], ['gh:*\n*']]) {
    assert.equal(there({ ...bob, tools }, tool), false, JSON.stringify(tools))
  }
  assert.equal(there({ ...bob, tools: ['gh:*', '*'] }, tool), true)
})

test('a tool is hidden when the policy says it does not exist, and when the policy fails', () => {
  const decide = () => ({ effect: 'allow' }) as const
  assert.equal(toolScope({ decide, exists: () => true })(bob, tool), true)
  assert.equal(toolScope({ decide, exists: () => false })(bob, tool), false)
  assert.equal(toolScope({ decide, exists: () => assert.fail('broken') })(bob, tool), false)
  assert.equal(toolScope({ decide, exists: () => 'yes' as never })(bob, tool), false)
  assert.equal(toolScope({ decide, exists: () => true })({ ...bob, tools: ['x:*'] }, tool), false)
})
