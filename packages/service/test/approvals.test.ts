import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ChainResult, type ChainStep, type Identity, type Result, ToolError } from '@gantry/contract'
import type { Database } from '../src/storage/databases/database.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { stub } from '../src/stub.fixture.ts'
import { ada, asked, bob, carl, eve, ledgerOf, mona, questionOf, stateOf } from './approvals.fixture.ts'
import { databaseEngines, postgresDatabase } from './databases.fixture.ts'
import { openServiceSite, type ServiceSite } from './service-site.fixture.ts'

const never = new AbortController().signal
const policy = {
  rules: [{ allow: '*' }, { ask: 't:plain', roles: ['staff'], reason: 'staff is new', approvers: ['managers'] }],
}

async function outcomeOf(site: ServiceSite, callId: string, as: Identity = ada): Promise<Result> {
  return (await site.service.wait(callId, as, 20_000, never)) as Result
}

function refused(code: string): (error: unknown) => boolean {
  return (error) => ToolError.is(error) && error.code === code
}

for (const [engine, open] of Object.entries(databaseEngines)) {
  test(`approvals on ${engine}`, async (t) => {
    const { ran, tools } = ledgerOf()
    const site = await openServiceSite(t, open, { tools, policy })
    const { database } = site
    const { approvals } = site.service
    t.beforeEach(() => void ran.splice(0))
    const audited = (callId: string): Promise<readonly string[]> =>
      database
        .query<{ line: string }>(
          `select case phase when 'admin' then tool || ' ' || principal else phase end as line from audit
          where call_id = $1 and phase in ('admin', 'end') order by seq`,
          [callId],
        )
        .then((rows) => rows.map(({ line }) => line))

    await t.test('a call that needs an approval waits, and runs once another principal has approved it', async () => {
      const { callId, question } = await asked(site, 't:pay', { amount: 5, password: 'hunter2' })
      assert.deepEqual(ran, [])
      const { args, ...shown } = await approvals.get(question.id, bob)
      assert.match(JSON.stringify(args), /^\{"amount":5,"password":"\[redacted 7 bytes hmac-sha256:[0-9a-f]{32}\]"\}$/)
      assert.deepEqual(shown.hidden, ['/password'])
      assert.deepEqual([shown.state, shown.tool, shown.principal], ['open', 't:pay:1.0.0', 'ada'])
      assert.equal(Date.parse(shown.expiresAt) - Date.parse(shown.askedAt), 24 * 3_600_000)
      const decided = await approvals.decide(question.id, { decision: 'approve', reason: 'fine' }, bob)
      assert.deepEqual([decided.state, decided.decided?.by, decided.decided?.why], ['approved', 'bob', 'fine'])
      assert.equal((await outcomeOf(site, callId)).status, 'ok')
      assert.deepEqual(ran, ['pay {"amount":5,"password":"hunter2"} ada'])
      assert.deepEqual(await audited(callId), ['approvals.ask ada', 'approvals.approve bob', 'end'])
      const [intent] = await database.query(`select details from audit where call_id = $1 and phase = 'intent'`, [
        callId,
      ])
      assert.equal(JSON.parse(String(intent?.details)).approvedBy, 'bob')
    })

    await t.test('a denial ends the call, and its error names the approver and the reason', async () => {
      const { callId, question } = await asked(site, 't:pay')
      await approvals.decide(question.id, { decision: 'deny', reason: 'too dear' }, bob)
      const { status, error } = await outcomeOf(site, callId)
      assert.deepEqual([status, error?.code, error?.effect], ['denied', 'DENIED', 'none'])
      assert.match(error?.message ?? '', /bob denied it: too dear/)
      assert.deepEqual(ran, [])
      assert.deepEqual(await audited(callId), ['approvals.ask ada', 'approvals.deny bob', 'end'])
    })

    await t.test('the caller, principals without the permission and other tenants cannot decide', async () => {
      const { callId, question } = await asked(site, 't:pay')
      const approve = (by: Identity) => approvals.decide(question.id, { decision: 'approve' }, by)
      await assert.rejects(approve(ada), refused('DENIED'))
      await assert.rejects(approve({ ...ada, roles: ['managers'] }), refused('DENIED'))
      await assert.rejects(approve(carl), refused('DENIED'))
      await assert.rejects(approve(mona), refused('DENIED'))
      await assert.rejects(approve(eve), refused('NOT_FOUND'))
      assert.equal((await site.service.call(callId, ada)).state, 'asked')
      assert.deepEqual(ran, [])
      await approve(bob)
      assert.equal((await outcomeOf(site, callId)).status, 'ok')
    })

    await t.test('an `ask` rule names roles that may decide in addition to holders of the permission', async () => {
      const { callId, question } = await asked(site, 't:plain', {}, carl)
      assert.deepEqual([question.reason, question.approvers], ['staff is new', ['managers']])
      await assert.rejects(approvals.decide(question.id, { decision: 'approve' }, carl), refused('DENIED'))
      await approvals.decide(question.id, { decision: 'approve' }, mona)
      assert.equal((await outcomeOf(site, callId, carl)).status, 'ok')
      assert.equal((await site.call('t:plain', {}, ada)).outcome.status, 'ok', 'other calls need no approval')
    })

    await t.test('arguments changed in the database after submission need a new approval', async () => {
      const { callId, question } = await asked(site, 't:pay', { amount: 5 })
      await database.query(`update calls set payload = '{"amount":5000}' where call_id = $1`, [callId])
      await approvals.decide(question.id, { decision: 'approve' }, bob)
      const second = await stateOf(site, callId, 'asked').then(async () => {
        const next = await questionOf(site, callId)
        return approvals.get(next.id, bob)
      })
      assert.notEqual(second.fingerprint, question.fingerprint)
      assert.deepEqual([second.args, ran], [{ amount: 5_000 }, []])
      await database.query(`update calls set payload = '{"amount":5}' where call_id = $1`, [callId])
      await approvals.decide(second.id, { decision: 'deny' }, bob)
      assert.equal((await outcomeOf(site, callId)).status, 'ok', 'what was approved is approved')
      assert.deepEqual(ran, ['pay {"amount":5} ada'])
    })

    await t.test('an approval covers one call: an identical second call needs its own', async () => {
      const first = await asked(site, 't:read', { q: 1 })
      await approvals.decide(first.question.id, { decision: 'approve' }, bob)
      assert.equal((await outcomeOf(site, first.callId)).status, 'ok')
      const second = await asked(site, 't:read', { q: 1 })
      assert.notEqual(second.question.id, first.question.id)
      assert.equal(ran.length, 1)
      assert.equal(await site.service.cancel(second.callId, ada).then(({ state }) => state), 'cancelled')
    })

    await t.test(
      'a call or chain step whose tool definition changed after its request needs a new approval',
      async () => {
        const { callId, question } = await asked(site, 't:pay')
        const steps: ChainStep[] = [{ id: 'paid', tool: 't:pay' }]
        const chain = await site.service.submit({ kind: 'chain', args: { steps } }, ada)
        await stateOf(site, chain.callId, 'asked')
        const inner = await questionOf(site, chain.callId)
        const changed = ledgerOf('Another definition.')
        await site.configure({ tools: changed.tools, policy })
        for (const { id } of [question, inner]) await approvals.decide(id, { decision: 'approve' }, bob)
        const again = await Promise.all([callId, chain.callId].map((id) => questionOf(site, id)))
        assert.notDeepEqual(
          again.map(({ id }) => id),
          [question.id, inner.id],
        )
        assert.deepEqual([ran, changed.ran], [[], []])
        await site.configure({ tools, policy })
        for (const { id } of again) await approvals.decide(id, { decision: 'deny' }, bob)
        for (const id of [callId, chain.callId]) assert.equal((await outcomeOf(site, id)).status, 'ok')
        assert.deepEqual([ran, changed.ran], [['pay {} ada', 'pay {} ada'], []])
      },
    )

    await t.test('a policy that now denies the tool overrides an approval', async () => {
      const { callId, question } = await asked(site, 't:pay')
      await site.configure({ tools, policy: { rules: [{ allow: '*' }, { deny: 't:pay', reason: 'not today' }] } })
      await approvals.decide(question.id, { decision: 'approve' }, bob)
      const { error } = await outcomeOf(site, callId)
      assert.equal(error?.code, 'DENIED')
      assert.match(error?.message ?? '', /not today/)
      assert.deepEqual(ran, [])
      await site.configure({ tools, policy })
    })

    await t.test('a call whose approval expires undecided is denied', async () => {
      await site.configure({ tools, policy, limits: { approvalMs: 300 } })
      const { callId } = await site.service.submit({ kind: 'call', tool: 't:pay', args: {} }, ada)
      const { error } = await outcomeOf(site, callId)
      assert.equal(error?.code, 'DENIED')
      assert.match(error?.message ?? '', /no decision in time/)
      assert.deepEqual(await audited(callId), ['approvals.ask ada', 'approvals.expire gantry', 'end'])
      assert.deepEqual(ran, [])
      await site.configure({ tools, policy })
    })

    await t.test('when an approval races its expiry, one of them wins and decides the call’s outcome', async () => {
      await site.configure({ tools, policy, limits: { approvalMs: 150 } })
      const ends: string[] = []
      const rounds = Array.from({ length: 25 }, async (_, round) => {
        const { callId } = await site.service.submit({ kind: 'call', tool: 't:pay', args: { round } }, ada)
        const question = await questionOf(site, callId, bob, 'all')
        const said = await approvals.decide(question.id, { decision: 'approve' }, bob).then(
          () => 'approved',
          () => 'too late',
        )
        const { status } = await outcomeOf(site, callId)
        assert.equal(status, said === 'approved' ? 'ok' : 'denied', `round ${round}`)
        ends.push(said)
        return said === 'approved' ? `pay {"round":${round}} ada` : undefined
      })
      const expected = (await Promise.all(rounds)).filter((line) => line !== undefined)
      assert.deepEqual(ran.toSorted(), expected.toSorted())
      await site.configure({ tools, policy })
    })

    await t.test('a call that waits for approval can be cancelled, and its approval is then void', async () => {
      const { callId, question } = await asked(site, 't:pay')
      assert.equal((await site.service.cancel(callId, ada)).state, 'cancelled')
      await assert.rejects(approvals.decide(question.id, { decision: 'approve' }, bob), refused('INPUT_INVALID'))
      assert.equal((await approvals.get(question.id, bob)).state, 'void')
      assert.equal((await outcomeOf(site, callId)).error?.effect, 'none')
      assert.deepEqual(ran, [])
    })

    await t.test('a chain waits for approval at a step, and resumes without repeating earlier steps', async () => {
      const steps: ChainStep[] = [
        { id: 'one', tool: 't:plain', args: { n: 1 } },
        { id: 'two', tool: 't:pay', args: { n: 2 } },
        { id: 'three', tool: 't:plain', args: { n: 3 } },
      ]
      const { callId } = await site.service.submit({ kind: 'chain', args: { steps } }, ada)
      await stateOf(site, callId, 'asked')
      assert.deepEqual(ran, ['plain {"n":1} ada'])
      const question = await questionOf(site, callId)
      assert.deepEqual([question.innerId, question.tool], [`${callId}.two`, 't:pay:1.0.0'])
      await approvals.decide(question.id, { decision: 'approve' }, bob)
      const result = stub<ChainResult>(await outcomeOf(site, callId))
      assert.deepEqual([result.status, result.steps.map(({ state }) => state)], ['ok', ['ok', 'ok', 'ok']])
      assert.deepEqual(ran, ['plain {"n":1} ada', 'pay {"n":2} ada', 'plain {"n":3} ada'])
    })

    await t.test('a chain cancelled while it waits for approval reports effect `possible`', async () => {
      const steps: ChainStep[] = [
        { id: 'one', tool: 't:plain' },
        { id: 'two', tool: 't:pay' },
      ]
      const { callId } = await site.service.submit({ kind: 'chain', args: { steps } }, ada)
      await stateOf(site, callId, 'asked')
      await site.service.cancel(callId, ada)
      const { status, error } = await outcomeOf(site, callId)
      assert.deepEqual([status, error?.effect, ran.length], ['cancelled', 'possible', 1])
    })

    await t.test('a call that waits for approval holds no slot', async () => {
      const first = await asked(site, 't:slotted', { n: 1 })
      const second = await asked(site, 't:slotted', { n: 2 })
      await approvals.decide(second.question.id, { decision: 'approve' }, bob)
      assert.equal((await outcomeOf(site, second.callId)).status, 'ok')
      await approvals.decide(first.question.id, { decision: 'approve' }, bob)
      assert.equal((await outcomeOf(site, first.callId)).status, 'ok')
      assert.deepEqual(ran, ['slotted {"n":2} ada', 'slotted {"n":1} ada'])
    })

    await t.test('the event stream of a call names the approval that it waits for', async () => {
      const { callId } = await site.service.submit({ kind: 'call', tool: 't:pay', args: {} }, ada)
      const { id } = await questionOf(site, callId)
      for await (const event of await site.service.events(callId, 0, ada, never)) {
        assert.ok(event.kind === 'log')
        assert.ok(event.message.includes(id), event.message)
        break
      }
      await site.service.cancel(callId, ada)
    })

    await t.test('calls that wait for approval are listed under the state `asked`', async () => {
      const { callId } = await asked(site, 't:pay')
      const { items } = await site.service.calls({ state: 'asked' }, ada)
      assert.deepEqual(
        items.map((item) => item.callId),
        [callId],
      )
    })
  })
}

test('approvals through an API process or a worker process release calls that run in the worker', async (t) => {
  const [here, there] = [ledgerOf(), ledgerOf()]
  let url = ''
  const first = async (t: TestContext): Promise<Database> => {
    const made = await postgresDatabase(t)
    url = made.url
    return made.database
  }
  const second = async (t: TestContext): Promise<Database> => {
    const database = await openPostgres({ url })
    t.after(() => database.close())
    return database
  }
  const api = await openServiceSite(t, first, { tools: here.tools }, { roles: ['api'] })
  await t.test('with an API and a worker on one database', async (own) => {
    const worker = await openServiceSite(own, second, { tools: there.tools }, { roles: ['worker'] })
    const waiting = await Promise.all(Array.from({ length: 10 }, (_, n) => asked(api, 't:pay', { n })))
    for (const [n, { question }] of waiting.entries()) {
      const through = n % 2 === 0 ? api : worker
      await through.service.approvals.decide(question.id, { decision: 'approve' }, bob)
    }
    const ends = await Promise.all(waiting.map(({ callId }) => outcomeOf(api, callId)))
    assert.deepEqual([...new Set(ends.map(({ status }) => status))], ['ok'])
    assert.deepEqual([here.ran.length, there.ran.length], [0, 10])
  })
})
