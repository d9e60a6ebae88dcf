import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Service } from '../src/http/service.ts'
import { newStore } from '../src/storage/calls.fixture.ts'
import { removeExpired } from '../src/storage/retention.ts'
import { ada, bob, ledgerOf } from './approvals.fixture.ts'
import { eventually } from './broker-site.fixture.ts'
import { databaseEngines } from './databases.fixture.ts'
import { openServiceSite } from './service-site.fixture.ts'

const never = new AbortController().signal
const day = 86_400_000

const code = 'await tools.t.plain({ n: 1 }); await tools.t.pay({ n: 2 }); return (await tools.t.pay({ n: 3 })).args.n'
const steps = [
  { id: 'one', tool: 't:plain', args: { n: 1 } },
  { id: 'two', tool: 't:pay', args: { n: 2 } },
  { id: 'three', tool: 't:pay', args: { n: 3 } },
]
/** The same three calls with effect `once`, as a program and as a chain. */
const works: { readonly [kind: string]: Parameters<Service['submit']>[0] } = {
  program: { kind: 'call', tool: 'code:program', args: { code } },
  chain: { kind: 'chain', args: { steps } },
}
const each = ['plain {"n":1} ada', 'pay {"n":2} ada', 'pay {"n":3} ada']

for (const [engine, open] of Object.entries(databaseEngines)) {
  test(`redriven programs and chains on ${engine}`, async (t) => {
    const { tools, ran } = ledgerOf()
    const { service, database } = await openServiceSite(t, open, { tools })
    t.beforeEach(() => {
      ran.length = 0
    })
    const submit = async (work: Parameters<Service['submit']>[0]) => (await service.submit(work, ada)).callId
    /** The open approval of the inner call with this number, once the call waits. */
    const questionOf = async (callId: string, n: number): Promise<string> => {
      const { id } = await eventually(async () => {
        if ((await service.call(callId, ada)).state !== 'asked') return undefined
        const { items } = await service.approvals.list({ state: 'open' }, ada)
        return items.find((one) => one.callId === callId)
      }, `a question of ${callId}`)
      assert.deepEqual((await service.approvals.get(id, ada)).args, { n })
      return id
    }
    const approve = async (callId: string, n: number): Promise<void> => {
      await service.approvals.decide(await questionOf(callId, n), { decision: 'approve' }, bob)
    }
    const end = async (callId: string) => {
      await service.wait(callId, ada, 20_000, never)
      return (await service.call(callId, ada)).result
    }
    /** Turns a call that waits for this approval into a dead letter, as after too many worker deaths, and redrives it. */
    const redrive = async (callId: string, n: number): Promise<string> => {
      await questionOf(callId, n)
      await database.query('update queue set lost = 100, deaths = 100 where call_id = $1', [callId])
      await approve(callId, n)
      assert.equal((await end(callId))?.error?.code, 'DELIVERY_EXHAUSTED')
      const letter = (await service.deadLetters({}, ada)).items.find((one) => one.callId === callId)
      return (await service.redrive(letter?.id ?? '', ada)).callId
    }
    /** Removes all ended calls. */
    const expire = async (): Promise<void> => {
      await database.query(`update results set finished_at = now() - interval '30 days'`)
      const { store } = await newStore(t)
      await removeExpired(database.asService(), store, { callsMs: day, auditMs: 60 * day, signal: never })
    }

    for (const [kind, work] of Object.entries(works)) {
      await t.test(`a ${kind} that is redriven twice repeats no call of an earlier run`, async () => {
        const first = await submit(work)
        const second = await redrive(first, 2)
        await approve(second, 2)
        const third = await redrive(second, 3)
        await approve(third, 3)
        assert.equal((await end(third))?.status, 'ok')
        assert.deepEqual(ran, each)
        assert.equal((await service.replay(third, ada, never)).same, true)
      })

      await t.test(`a redriven ${kind} resumes after retention has removed its original call`, async () => {
        const first = await submit(work)
        const second = await redrive(first, 2)
        await expire()
        assert.deepEqual(await database.query('select call_id from calls where call_id = $1', [first]), [])
        await approve(second, 2)
        await approve(second, 3)
        assert.equal((await end(second))?.status, 'ok')
        assert.deepEqual(ran, each)
      })
    }
  })
}
