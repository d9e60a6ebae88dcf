import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { asked, bob, carl, ledgerOf, mona, stateOf } from './approvals.fixture.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const cleo: Identity = { principal: 'cleo', tenant: 'acme', permissions: [], roles: ['board'] }

test('an approval by a principal that the policy no longer names does not let the call run', async (t) => {
  const { ran, tools } = ledgerOf()
  const policy = { rules: [{ allow: '*' }, { ask: 't:*', approvers: ['managers', 'board'] }] as const }
  const site = await openServiceSite(t, pgliteDatabase, { tools, policy })
  const { approvals, policy: stored } = site.service
  const ask = (approvers: readonly string[]) =>
    stored.replace({ rules: [{ ask: 't:plain', approvers }], default: 'allow' }, operator)
  const another = (callId: string, before: readonly string[]) =>
    eventually(async () => {
      const { items } = await approvals.list({}, bob)
      return items.find((question) => question.callId === callId && !before.includes(question.id))
    }, `another question of ${callId}`)

  const { callId, question } = await asked(site, 't:plain', { amount: 5 }, carl)
  await ask(['board'])
  assert.equal((await approvals.decide(question.id, { decision: 'approve' }, mona)).state, 'approved')
  const second = await another(callId, [question.id])
  await stateOf(site, callId, 'asked', carl)
  assert.deepEqual([ran, second.approvers], [[], ['board']])
  await assert.rejects(approvals.decide(second.id, { decision: 'approve' }, mona), { code: 'DENIED' })
  await approvals.decide(second.id, { decision: 'approve' }, cleo)
  await stateOf(site, callId, 'ok', carl)
  assert.equal(ran.length, 1)

  // Control: the same approval is enough while the policy names its role.
  await ask(['managers'])
  const { callId: next, question: asking } = await asked(site, 't:plain', {}, carl)
  await approvals.decide(asking.id, { decision: 'approve' }, mona)
  await stateOf(site, next, 'ok', carl)
  assert.equal(ran.length, 2)
})
