import assert from 'node:assert/strict'
import { test } from 'node:test'
import { testPolicy } from '@gantry/conformance/internal/host-ports'
import type { Identity } from '@gantry/contract'
import { toolScope } from '../tool-visibility.ts'
import { allOf } from './all-of.ts'
import { rules } from './rules.ts'
import { tenantTools } from './tenant-tools.ts'

/** tenantTools only hides tools and denies no call, so the suite runs it together with rules. */
testPolicy('tenantTools', () => {
  const said = rules([{ allow: 'open:*' }, { deny: 'shut:tool' }, { ask: 'careful:*' }])
  const both = allOf(tenantTools({ acme: ['open:*', 'shut:*', 'careful:*'] }), said)
  assert.ok(both)
  return both
})

const tool = { namespace: 'gh', name: 'issue', version: '1.0.0' }
const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: ['*'] }

test('tenantTools gives a tenant its own tools, else the tools of "*", else all tools', () => {
  const divided = toolScope(tenantTools({ acme: ['gh:*'], '*': ['demo:*'] }))
  const demo = { ...tool, namespace: 'demo' }
  assert.deepEqual([divided(bob, tool), divided(bob, demo)], [true, false])
  assert.deepEqual([divided({ ...bob, tenant: 'x' }, tool), divided({ ...bob, tenant: 'x' }, demo)], [false, true])
  assert.equal(divided({ ...bob, tenant: '__proto__' }, tool), false)
  const open = toolScope(tenantTools({ acme: ['gh:*'] }))
  assert.equal(open({ ...bob, tenant: 'x' }, demo), true)
  assert.throws(() => tenantTools({ acme: ['gh'] }), { code: 'CONFIG_INVALID' })
})
