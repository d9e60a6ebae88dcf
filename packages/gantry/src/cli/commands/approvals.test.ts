import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ApprovalView } from '@gantry/contract'
import { startServiceRig } from '../service.fixture.ts'

const question: ApprovalView = {
  id: 'ap_1',
  state: 'open',
  callId: 'c1',
  innerId: 'c1.pay',
  tool: 'bank:pay:1.0.0',
  principal: 'ada\u001b[2J',
  reason: 'It costs money.',
  args: { amount: 5 },
  argsBytes: 12,
  fingerprint: 'f00',
  approvers: ['managers'],
  askedAt: '2026-01-01T00:00:00.000Z',
  expiresAt: '2026-01-02T00:00:00.000Z',
}

test('approvals ls lists pending approvals, or says that there are none', async (t) => {
  const { gantry, json, service } = await startServiceRig(t)
  assert.equal((await gantry(['approvals', 'ls'])).out, 'No call waits for approval.\n')
  service.questions.push(question)
  const { out } = await gantry(['approvals', 'ls', '--all'])
  assert.match(
    out,
    /^approval +state +tool +caller +expires +reason\nap_1 +open +bank:pay:1\.0\.0 +ada\\e\[2J +2026-01-02/,
  )
  assert.equal((await json(['approvals', 'ls'])).values[0].items[0].id, 'ap_1')
})

test('approvals show prints an approval with its arguments, or the command that shows truncated arguments in full', async (t) => {
  const { gantry, json, service } = await startServiceRig(t)
  const { args: _, ...long } = question
  service.questions.push(question, { ...long, id: 'ap_2', argsBytes: 70_000 })
  const { out } = await gantry(['approvals', 'show', 'ap_1'])
  assert.match(
    out,
    /^approval: ap_1\nstate: open\ncall: c1\nstep: c1\.pay\ntool: bank:pay:1\.0\.0\ncaller: ada\\e\[2J\n/,
  )
  assert.match(out, /\napprovers: managers\nfingerprint: f00\narguments: 12 bytes\n\{\n {2}"amount": 5\n\}\n$/)
  assert.match(
    (await gantry(['approvals', 'show', 'ap_2'])).out,
    /arguments: 70000 bytes\ntruncated: gantry approvals show ap_2 --full shows all of the arguments\n$/,
  )
  const missing = await json(['approvals', 'show', 'nothing'])
  assert.deepEqual([missing.code, missing.values[0].error.code], [2, 'NOT_FOUND'])
})

test('approvals approve and deny decide an approval, with an optional reason', async (t) => {
  const { gantry, json, service } = await startServiceRig(t)
  service.questions.push(question, { ...question, id: 'ap_2' })
  const approved = await gantry(['approvals', 'approve', 'ap_1'])
  assert.deepEqual(
    [approved.code, approved.out],
    [0, 'Approved: bank:pay:1.0.0 continues; gantry call c1 shows its state.\n'],
  )
  const { values } = await json(['approvals', 'deny', 'ap_2', '--reason', 'too dear'])
  assert.deepEqual([values[0].state, values[0].decided.why], ['denied', 'too dear'])
  assert.deepEqual(
    service.questions.map(({ state, decided }) => [state, decided?.by, decided?.why]),
    [
      ['approved', 'owner', undefined],
      ['denied', 'owner', 'too dear'],
    ],
  )
  assert.match((await gantry(['approvals', 'show', 'ap_2'])).out, /\ndecided: .* by owner: too dear\n/)
})
