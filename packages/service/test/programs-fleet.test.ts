import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { approvalRecords } from '../src/storage/approvals/approvals.ts'
import { eventually } from './broker-site.fixture.ts'
import { postgresDatabase } from './databases.fixture.ts'
import { ledgerFolder, startServe } from './serve.fixture.ts'

const bob: Identity = { principal: 'bob', tenant: 'default', permissions: ['gantry:approve'] }

test('a program that waits for approval resumes in another process after its worker was killed', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const { folder, ran } = ledgerFolder(
    t,
    (ledger) => `import { appendFileSync } from 'node:fs'
import { defineTool } from '@gantry/core'
const tool = (name, rest) => defineTool({ namespace: 'my', name, description: 'Notes that it ran.', effect: 'once',
  inputSchema: { type: 'object' }, ...rest, run({ n }) {
    appendFileSync(${ledger}, name + ' ' + n + ' ' + process.pid + '\\n')
    return n } })
export default { service: { leaseMs: 1_000 }, tools: [tool('note'), tool('pay', { approval: 'always' })] }`,
  )
  const environment = { DATABASE_URL: url }
  const start = (role: string) => startServe(t, folder, { args: ['--role', role], environment })
  const api = start('api')
  const first = start('worker')
  await api.ready
  const code = `
    const one = await tools.my.note({ n: 1 })
    const chance = Math.random()
    const paid = await tools.my.pay({ n: one + 1 })
    await tools.my.note({ n: chance })
    return { paid, chance, began: Date.now() }`
  const { status, value } = await api.post('/v1/code', { code, waitMs: 0 })
  assert.equal(status, 202)
  await eventually(async () => {
    const { value: view } = await api.get(`/v1/calls/${value.callId}`)
    return view.state === 'asked' ? true : undefined
  }, 'a program that asks')
  first.child.kill('SIGKILL')
  await first.ended
  const approvals = approvalRecords(database)
  const [question] = (await approvals.list({}, bob)).items
  assert.deepEqual([question?.callId, question?.innerId], [value.callId, `${value.callId}.2`])
  await approvals.decide(question?.id ?? '', { decision: 'approve' }, bob)
  const second = start('worker')
  const { value: view } = await api.get(`/v1/calls/${value.callId}?waitMs=30000`)
  assert.deepEqual([view.kind, view.state, view.result.output.paid], ['code', 'ok', 2])
  const { chance } = view.result.output
  assert.deepEqual(ran(), [
    `note 1 ${first.child.pid}`,
    `pay 2 ${second.child.pid}`,
    `note ${chance} ${second.child.pid}`,
  ])
})
