import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ApprovalMessage, verifyWebhook } from '@gantry/contract'
import { receiver, testKey } from '../src/reply/callback.fixture.ts'
import { ada, asked, bob, carl, ledgerOf } from './approvals.fixture.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite } from './service-site.fixture.ts'

const never = new AbortController().signal
const link = 'https://console.example.com/approvals/{id}'
const policy = { rules: [{ allow: '*' }, { ask: 't:plain', approvers: ['staff'], reason: 'staff decides' }] }

/** A service with a webhook on loopback that answers with `statuses` in turn, and then with 200. */
async function openSite(
  t: TestContext,
  { statuses = [], service = {}, approvalMs }: { statuses?: number[]; service?: object; approvalMs?: number } = {},
) {
  const lines: { readonly msg: string; readonly error?: string }[] = []
  const hook = await receiver(t, (_, response, count) => response.writeHead(statuses[count - 1] ?? 200).end())
  const { ran, tools } = ledgerOf()
  const limits = approvalMs === undefined ? {} : { limits: { approvalMs } }
  const site = await openServiceSite(
    t,
    pgliteDatabase,
    { tools, policy, ...limits },
    { ...service },
    (line) => lines.push(JSON.parse(line)),
    { approvals: { webhook: { url: hook.url, private: true }, link } },
  )
  const messages = async (count: number): Promise<ApprovalMessage[]> => {
    const found = await eventually(async () => (hook.received.length >= count ? hook.received : undefined), 'a message')
    for (const one of found) assert.equal(await verifyWebhook([testKey], one), 'valid')
    return found.map(({ body }) => JSON.parse(body))
  }
  /** Makes messages due at once that wait for their next attempt. */
  const retried = () => site.database.query('update outbox set next_at = now() where sent_at is null')
  return { ...site, site, hook, ran, lines, messages, retried }
}

test('approvals over a webhook', async (t) => {
  const { site, service, hook, ran, messages, database } = await openSite(t)
  t.beforeEach(() => void hook.received.splice(0))

  await t.test(
    'the webhook gets the exact request when a call asks, and the decision, each once and signed',
    async () => {
      const text = 'fine"},"type":"approval.approved\n\n*Approved* by <!channel> \u202e'
      const { callId, question } = await asked(site, 't:pay', { text, password: 'hunter2' })
      const [first] = await messages(1)
      const { args, ...approval } = await service.approvals.get(question.id, bob)
      const { webhook: _, ...rest } = approval
      const id = question.id
      assert.deepEqual(first, {
        type: 'approval.requested',
        tenant: 'acme',
        approval: { ...rest, args },
        commands: {
          show: `gantry approvals show ${id}`,
          approve: `gantry approvals approve ${id}`,
          deny: `gantry approvals deny ${id} --reason TEXT`,
        },
        link: `https://console.example.com/approvals/${id}`,
      })
      assert.deepEqual([first.approval.state, first.approval.principal], ['open', 'ada'])
      assert.match(JSON.stringify(first.approval.args), /"password":"\[redacted 7 bytes hmac-sha256:[0-9a-f]{32}\]"/)
      assert.ok(!hook.received.some(({ body }) => body.includes('hunter2')))
      assert.equal(Object(first.approval.args).text, text)
      assert.ok(first.approval.notes?.some(({ kind }) => kind === 'invisible'))
      await service.approvals.decide(id, { decision: 'approve', reason: 'fine' }, bob)
      await service.wait(callId, ada, 20_000, never)
      const [, second] = await messages(2)
      assert.deepEqual([second?.type, second?.approval.decided?.by], ['approval.approved', 'bob'])
      assert.deepEqual([second?.approval.decided?.why, second?.commands], ['fine', undefined])
      assert.deepEqual(ran.length, 1)
      const ids = new Set(hook.received.map(({ headers }) => headers['webhook-id']))
      assert.equal(ids.size, 2)
      await service.approvals.decide(id, { decision: 'approve' }, bob)
      const items = `select count(*)::integer as items from outbox where kind = 'approval' and call_id = $1`
      assert.deepEqual(await database.query(items, [callId]), [{ items: 2 }])
    },
  )

  await t.test('long arguments are previews with their length and digest, as an approver sees them', async () => {
    const { question } = await asked(site, 't:pay', { note: 'short', script: 'x'.repeat(300_000) })
    const [message] = await messages(1)
    assert.equal(message?.approval.argsBytes, question.argsBytes)
    assert.deepEqual(message?.approval.truncated, ['/script'])
    const { note, script } = Object(message?.approval.args)
    assert.equal(note, 'short')
    assert.match(script, /^x{8192}… \[truncated: 300000 bytes in all, sha256:[0-9a-f]{64}\]$/)
  })

  await t.test('a denial has a message too', async () => {
    const { question } = await asked(site, 't:pay')
    await service.approvals.decide(question.id, { decision: 'deny', reason: 'too dear' }, bob)
    assert.deepEqual(
      (await messages(2)).map(({ type }) => type),
      ['approval.requested', 'approval.denied'],
    )
  })

  await t.test('whether the message arrived is shown to approvers and not to the caller', async () => {
    const { question } = await asked(site, 't:plain', {}, carl)
    await messages(1)
    const sent = await eventually(async () => {
      const { webhook } = await service.approvals.get(question.id, bob)
      return webhook?.state === 'sent' ? webhook : undefined
    }, 'a sent message')
    assert.deepEqual(sent, { state: 'sent', tries: 1 })
    const asked2 = await asked(site, 't:pay', {}, { ...carl, roles: [] })
    assert.equal((await service.approvals.get(asked2.question.id, { ...carl, roles: [] })).webhook, undefined)
  })
})

test('an endpoint that fails is logged, counted and shown, and gets the same message again; the call waits', async (t) => {
  const { site, service, hook, lines, messages, retried } = await openSite(t, { statuses: [500] })
  const { callId, question } = await asked(site, 't:pay')
  const waiting = await eventually(async () => {
    const { webhook } = await service.approvals.get(question.id, bob)
    return webhook?.error === undefined ? undefined : webhook
  }, 'a failed attempt')
  assert.deepEqual(waiting, { state: 'waiting', tries: 1, error: `${hook.origin} answered 500` })
  const line = lines.find(({ msg }) => msg === 'message to the webhook of approvals not delivered')
  assert.equal(line?.error, `${hook.origin} answered 500`)
  const counted = (await service.metrics('whole')).text
  assert.match(counted, /^gantry_approval_webhooks_total\{outcome="again"\} 1$/m)
  assert.doesNotMatch(counted, /^gantry_callbacks_total\{/m)
  assert.equal((await service.call(callId, ada)).state, 'asked')
  await retried()
  await messages(2)
  const [first, second] = hook.received
  assert.equal(first?.headers['webhook-id'], second?.headers['webhook-id'])
  await service.approvals.decide(question.id, { decision: 'approve' }, bob)
  assert.equal((await service.wait(callId, ada, 20_000, never))?.status, 'ok')
})

test('a message that is given up becomes a dead letter, and its redrive sends it; the approval still waits', async (t) => {
  const { site, service, hook, messages } = await openSite(t, { statuses: [500], service: { callbackTries: 1 } })
  const { question } = await asked(site, 't:pay')
  const letter = await eventually(async () => (await service.deadLetters({}, ada)).items[0], 'a dead letter')
  assert.deepEqual([letter.source, letter.reason], ['approval', `${hook.origin} answered 500`])
  assert.equal((await service.approvals.get(question.id, bob)).webhook?.state, 'failed')
  assert.equal(question.state, 'open')
  await service.redrive(letter.id, ada)
  const [, again] = await messages(2)
  assert.deepEqual([again?.type, again?.approval.id], ['approval.requested', question.id])
})

test('an approval that expires has a message', async (t) => {
  const { service, messages } = await openSite(t, { approvalMs: 1 })
  const { callId } = await service.submit({ kind: 'call', tool: 't:pay', args: {} }, ada)
  assert.equal((await service.wait(callId, ada, 20_000, never))?.status, 'denied')
  const types = (await messages(2)).map(({ type, approval: { state } }) => [type, state])
  assert.deepEqual(
    types.find(([type]) => type === 'approval.expired'),
    ['approval.expired', 'expired'],
  )
})
