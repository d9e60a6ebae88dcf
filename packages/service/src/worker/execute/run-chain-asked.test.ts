import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ChainResult, ChainStep, Identity } from '@gantry/contract'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import { approvalRecords } from '../../storage/approvals/approvals.ts'
import { isPending } from '../../storage/calls/call-facts.ts'
import type { Database } from '../../storage/databases/database.ts'
import { createApprover } from './approver.ts'
import { Site } from './run-chain.fixture.ts'

const bob: Identity = { principal: 'bob', tenant: 'lab', permissions: ['gantry:approve'] }
const engines: { readonly [name: string]: (t: TestContext) => Promise<Database> } = {
  PGlite: pgliteDatabase,
  PostgreSQL: async (t) => (await postgresDatabase(t)).database,
}

for (const [engine, open] of Object.entries(engines)) {
  test(`chains that wait for approval, on ${engine}`, async (t) => {
    const database = await open(t)
    const approvals = approvalRecords(database)
    const policy = { rules: [{ allow: '*' }, { ask: 'world:pay' }, { ask: 'world:repeatable' }] }
    const site = new Site(database, { approver: createApprover(approvals, { key: 'k' }), policy })
    t.after(() => site.executor.close())
    t.beforeEach(() => {
      site.world.runs.length = 0
      site.world.meanwhile = undefined
      site.reports.length = 0
    })
    const decide = async (callId: string, decision: 'approve' | 'deny' = 'approve'): Promise<string[]> => {
      const open = (await approvals.list({}, bob)).items.filter((item) => item.callId === callId)
      for (const { id } of open) await approvals.decide(id, { decision }, bob)
      return open.map(({ innerId }) => innerId ?? '').sort()
    }
    const waits = (result: ChainResult): void => {
      assert.ok(isPending(result), JSON.stringify(result.error))
      assert.equal(result.status, 'denied')
    }

    await t.test(
      'a chain waits for approval in the middle, and resumes there without repeating its calls',
      async () => {
        const steps: ChainStep[] = [
          { id: 'first', tool: 'world:once', args: { n: 1 } },
          { id: 'paid', tool: 'world:pay', args: { n: '{{prev.n}}' } },
          { id: 'last', tool: 'world:once', args: { n: '{{prev.n}}' } },
        ]
        const chain = { steps, callId: 'middle' }
        waits(await site.attempt(chain))
        waits(await site.attempt(chain))
        assert.deepEqual(site.world.runs, ['first'])
        assert.deepEqual(await site.entries('middle', 'begun'), [])
        assert.equal(site.reports.length, 1, 'a step that waits has not ended')
        assert.deepEqual(await decide('middle'), ['middle.paid'])
        const result = await site.attempt(chain)
        assert.deepEqual([result.status, result.output], ['ok', { n: 1 }])
        assert.deepEqual(site.world.runs, ['first', 'paid', 'last'])
      },
    )

    await t.test(
      'a step that tolerates failures waits for approval too, and the chain goes on when it is denied',
      async () => {
        const steps: ChainStep[] = [
          { id: 'paid', tool: 'world:pay', onError: { output: 'not paid' } },
          { id: 'last', tool: 'world:once', args: { paid: '{{prev}}' } },
        ]
        const chain = { steps, callId: 'survives' }
        waits(await site.attempt(chain))
        assert.deepEqual(site.world.runs, [])
        await decide('survives', 'deny')
        const result = await site.attempt(chain)
        assert.deepEqual([result.status, result.output], ['ok', { paid: 'not paid' }])
        assert.equal(result.steps[0]?.error?.code, 'DENIED')
        assert.match(result.steps[0]?.error?.message ?? '', /bob denied it/)
        assert.deepEqual(site.world.runs, ['last'])
      },
    )

    await t.test(
      'calls in flight are not aborted when another one needs approval, and no new call begins',
      async () => {
        const asked = Promise.withResolvers<void>()
        site.world.meanwhile = async ({ signal }, entry) => {
          if (entry !== 'beside') return
          await asked.promise
          assert.equal(signal.aborted, false)
        }
        const steps: ChainStep[] = [
          {
            id: 'group',
            concurrency: 2,
            parallel: [
              { id: 'beside', tool: 'world:once' },
              { id: 'paid', tool: 'world:pay' },
              { id: 'later', tool: 'world:once' },
            ],
          },
        ]
        const chain = { steps, callId: 'beside' }
        const first = site.attempt(chain)
        while ((await approvals.list({}, bob)).items.every(({ callId }) => callId !== 'beside'));
        // By then the caller knows that there is no decision.
        for (let look = 0; look < 5; look++) await approvals.list({}, bob)
        asked.resolve()
        waits(await first)
        assert.deepEqual(await site.entries('beside', 'done'), ['beside'])
        await decide('beside')
        assert.equal((await site.attempt(chain)).status, 'ok')
        assert.deepEqual(site.world.runs.toSorted(), ['beside', 'later', 'paid'])
      },
    )

    await t.test('each element gets its own approval, and runs once', async () => {
      const steps: ChainStep[] = [{ id: 'each', tool: 'world:pay', forEach: [1, 2, 3, 4], concurrency: 2 }]
      const chain = { steps, callId: 'each' }
      const seen: string[] = []
      let result = await site.attempt(chain)
      for (let round = 0; isPending(result) && round < 10; round++) {
        seen.push(...(await decide('each')))
        result = await site.attempt(chain)
      }
      assert.equal(result.status, 'ok')
      assert.deepEqual(
        seen.toSorted(),
        [0, 1, 2, 3].map((n) => `each.each.${n}`),
      )
      assert.deepEqual(
        site.world.runs.toSorted(),
        [0, 1, 2, 3].map((n) => `each.${n}`),
      )
    })

    await t.test('other arguments of the same step need another approval', async () => {
      const chain = (n: number) => ({
        steps: [{ id: 'paid', tool: 'world:pay', args: { n } }] satisfies ChainStep[],
        callId: 'changed',
      })
      waits(await site.attempt(chain(1)))
      await decide('changed')
      waits(await site.attempt(chain(1_000_000)))
      assert.deepEqual(site.world.runs, [])
      assert.equal((await site.attempt(chain(1))).status, 'ok')
      assert.deepEqual(site.world.runs, ['paid'])
    })

    await t.test(
      'a chain that is stopped while it requests approval is cancelled, and does not wait for it',
      async () => {
        const stop = new AbortController()
        site.world.meanwhile = () => stop.abort()
        const steps: ChainStep[] = [
          {
            id: 'group',
            parallel: [
              { id: 'paid', tool: 'world:pay' },
              { id: 'beside', tool: 'world:keyed' },
            ],
          },
        ]
        const result = await site.attempt({ steps, callId: 'stopped', signal: stop.signal })
        assert.equal(result.status, 'cancelled')
        assert.ok(!isPending(result))
      },
    )
  })
}
