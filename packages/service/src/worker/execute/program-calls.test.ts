import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { pgliteDatabase } from '../../../test/databases.fixture.ts'
import { approvalRecords } from '../../storage/approvals/approvals.ts'
import type { JournalRecords } from '../../storage/journal.ts'
import { createApprover } from './approver.ts'
import { isLost } from './run-chain.ts'
import { type HostProgram, ProgramSite } from './run-program.fixture.ts'

const bob: Identity = { principal: 'bob', tenant: 'lab', permissions: ['gantry:approve'] }
const paying: HostProgram = ({ call }) => call('world:once', { n: 1 })

test('an inner call of a program that requires approval', async (t) => {
  const database = await pgliteDatabase(t)
  const approvals = approvalRecords(database)
  const policy = { rules: [{ allow: '*' }, { ask: 'world:once' }] }
  const site = new ProgramSite(database, { approver: createApprover(approvals, { key: 'k' }), policy })
  t.after(() => site.executor.close())
  t.beforeEach(() => {
    site.world.runs.length = 0
  })
  const approve = async (): Promise<void> => {
    for (const { id } of (await approvals.list({}, bob)).items) await approvals.decide(id, { decision: 'approve' }, bob)
  }

  await t.test('leaves no begun entry in the journal although the store is unavailable at first', async () => {
    let unavailable = 2
    const leaving = (journal: JournalRecords): JournalRecords => ({
      ...journal,
      async forget(holder, entry) {
        if (unavailable-- > 0) throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.')
        return journal.forget(holder, entry)
      },
    })
    const { attempt } = await site.attempt(paying, { callId: 'interrupted', through: leaving })
    assert.deepEqual([attempt.failure, attempt.waits?.code], [undefined, 'APPROVAL_REQUIRED'])
    assert.deepEqual(await site.site.entries('interrupted', 'begun'), [])
    await approve()
    const ended = await site.attempt(paying, { callId: 'interrupted' })
    assert.deepEqual('value' in ended && ended.value, { n: 1 })
    assert.deepEqual(site.world.runs, ['1'])
  })

  await t.test(
    'keeps its begun entry when another worker has claimed the program meanwhile, and the attempt is lost',
    async () => {
      const taken = (journal: JournalRecords): JournalRecords => ({
        ...journal,
        async forget(holder, entry) {
          await site.site.claim(holder.callId)
          return journal.forget(holder, entry)
        },
      })
      const { attempt } = await site.attempt(paying, { callId: 'taken', through: taken })
      assert.ok(isLost(attempt.failure))
      assert.equal((await site.site.entries('taken', 'begun')).length, 1)
      assert.deepEqual(site.world.runs, [])
    },
  )
})
