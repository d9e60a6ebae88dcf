import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { toolScope } from './tool-scope.ts'

const tool = { namespace: 'gh', name: 'issue', version: '1.0.0' }
const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['*'] }

test('an identity finds the tools that it is bound to, and one that is bound to none finds all', () => {
  const there = toolScope(undefined)
  assert.equal(there(bob, tool), true)
  for (const tools of [['gh:*'], ['GH:Issue'], ['x:y', 'gh:is*'], ['*'], ['gh:issue:1.0.0']]) {
    assert.equal(there({ ...bob, tools }, tool), true, tools.join())
  }
  for (const tools of [['gh:issues'], ['g:*'], ['gh:issue:2.0.0']]) {
    assert.equal(there({ ...bob, tools }, tool), false, tools.join())
  }
})

test('a list of patterns that is not understood, or empty, gives nothing', () => {
  const there = toolScope(undefined)
  for (const tools of [[], ['gh'], ['*', ''], ['gh:*', '*:*'], ['gh:*\n*']]) {
    assert.equal(there({ ...bob, tools }, tool), false, JSON.stringify(tools))
  }
  assert.equal(there({ ...bob, tools: ['gh:*', '*'] }, tool), true)
})

test('what the policy says is not there is not, and a policy that fails says so too', () => {
  const decide = () => ({ effect: 'allow' }) as const
  assert.equal(toolScope({ decide, exists: () => true })(bob, tool), true)
  assert.equal(toolScope({ decide, exists: () => false })(bob, tool), false)
  assert.equal(toolScope({ decide, exists: () => assert.fail('broken') })(bob, tool), false)
  assert.equal(toolScope({ decide, exists: () => 'yes' as never })(bob, tool), false)
  assert.equal(toolScope({ decide, exists: () => true })({ ...bob, tools: ['x:*'] }, tool), false)
})
