import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testPolicy } from '@gantry/conformance/internal/policy'
import type { Identity } from '@gantry/contract'
import { allOf } from './all-of.ts'
import { rules } from './rules.ts'
import { tenantTools } from './tenant-tools.ts'
import { toolScope } from './tool-scope.ts'

/** It only hides, and forbids nothing by itself. */
testPolicy('tenantTools', () => {
  const said = rules([{ allow: 'open:*' }, { deny: 'shut:tool' }, { ask: 'careful:*' }])
  const both = allOf(tenantTools({ acme: ['open:*', 'shut:*', 'careful:*'] }), said)
  assert.ok(both)
  return both
})

const tool = { namespace: 'gh', name: 'issue', version: '1.0.0' }
const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['*'] }

test('tools are divided between tenants: their own, those of all others, or all', () => {
  const divided = toolScope(tenantTools({ acme: ['gh:*'], '*': ['demo:*'] }))
  const demo = { ...tool, namespace: 'demo' }
  assert.deepEqual([divided(bob, tool), divided(bob, demo)], [true, false])
  assert.deepEqual([divided({ ...bob, tenant: 'x' }, tool), divided({ ...bob, tenant: 'x' }, demo)], [false, true])
  assert.equal(divided({ ...bob, tenant: '__proto__' }, tool), false)
  const open = toolScope(tenantTools({ acme: ['gh:*'] }))
  assert.equal(open({ ...bob, tenant: 'x' }, demo), true)
  assert.throws(() => tenantTools({ acme: ['gh'] }), { code: 'CONFIG_INVALID' })
})
