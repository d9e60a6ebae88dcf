import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { createClient } from '@gantry/client'
import type { ApprovalView } from '@gantry/contract'
import { keptIo } from '../io.fixture.ts'
import { startServiceRig } from '../service.fixture.ts'
import { approvalText } from './approvals.ts'
import { watchApprovals } from './watch-approvals.ts'

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

test('approvals ls --watch prints open approvals, then each new one and each decision, until it is stopped', async (t) => {
  for (const json of [false, true]) {
    const { service, server, key } = await startServiceRig(t)
    const stop = new AbortController()
    const io = keptIo({ signal: stop.signal })
    const lines = (): string[] => io.printed.out.split('\n').slice(0, -1)
    const printed = async (count: number): Promise<void> => {
      while (lines().length < count) await delay(5, undefined, { signal: t.signal })
    }
    service.questions.push(question, { ...question, id: 'ap_0', state: 'denied' })
    const watching = watchApprovals(createClient({ url: server.url, key }), json ? { json } : {}, io, 5)
    await printed(1)
    service.questions.push({ ...question, id: 'ap_2', askedAt: '2026-01-01T00:00:01.000Z' })
    await printed(2)
    service.questions[0] = { ...question, state: 'approved', decided: { by: 'bob', at: question.askedAt, why: 'fine' } }
    await printed(3)
    stop.abort()
    assert.equal(await watching, 0)
    if (!json) {
      assert.deepEqual(lines(), [
        'open ap_1 bank:pay:1.0.0 for ada\\e[2J, until 2026-01-02T00:00:00.000Z: It costs money.',
        'open ap_2 bank:pay:1.0.0 for ada\\e[2J, until 2026-01-02T00:00:00.000Z: It costs money.',
        'approved ap_1 bank:pay:1.0.0 by bob: fine',
      ])
      continue
    }
    const views = lines().map((line) => JSON.parse(line))
    assert.deepEqual(
      views.map(({ id, state, args }) => [id, state, args]),
      [
        ['ap_1', 'open', undefined],
        ['ap_2', 'open', undefined],
        ['ap_1', 'approved', undefined],
      ],
    )
  }
})

test('approvals ls --watch does not go with pages, and fails at once without a service', async (t) => {
  const { gantry, server } = await startServiceRig(t)
  assert.equal((await gantry(['approvals', 'ls', '--watch', '--limit', '1'])).code, 2)
  await server.close({ graceMs: 0 })
  const { code, err } = await gantry(['approvals', 'ls', '--watch'])
  assert.equal(code, 5)
  assert.match(err, /SERVICE_UNAVAILABLE/)
})

test('approvals show says whether the webhook has the message', () => {
  const shown = (webhook: NonNullable<ApprovalView['webhook']>): string =>
    /^webhook: .*$/m.exec(approvalText({ ...question, webhook }))?.[0] ?? ''
  assert.equal(shown({ state: 'sent', tries: 1 }), 'webhook: has the message (1 attempt)')
  assert.equal(
    shown({ state: 'waiting', tries: 2, error: 'https://a.example answered 500' }),
    'webhook: has no message after 2 attempts; is tried again: https://a.example answered 500',
  )
})
