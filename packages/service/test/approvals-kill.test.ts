import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import { approvalRecords } from '../src/storage/approvals/approvals.ts'
import { eventually } from './broker-site.fixture.ts'
import { postgresDatabase } from './databases.fixture.ts'
import { ledgerFolder, startServe } from './serve.fixture.ts'

const bob: Identity = { principal: 'bob', tenant: 'default', permissions: ['gantry:approve'] }
const count = 12

test('calls that wait for approval survive the death of their worker, run at most once if approved and never if denied', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const { folder, ran } = ledgerFolder(
    t,
    (ledger) => `import { appendFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { defineTool } from '@gantry/core'
export default {
  service: { leaseMs: 1_000 },
  tools: [defineTool({ namespace: 'my', name: 'pay', description: 'Pays.', effect: 'once', approval: 'always',
    inputSchema: { type: 'object' }, async run(_args, { callId }) {
      appendFileSync(${ledger}, callId + '\\n')
      await pause(50)
      return 'paid' } })],
}`,
  )
  const environment = { DATABASE_URL: url }
  const start = (...roles: string[]) =>
    startServe(t, folder, { args: roles.flatMap((role) => ['--role', role]), environment })
  const api = start('api')
  await api.ready
  const approvals = approvalRecords(database)
  const submit = async (): Promise<string[]> => {
    const calls = Array.from({ length: count }, (_, n) =>
      api.post('/v1/calls', { tool: 'my:pay', args: { n }, waitMs: 0 }),
    )
    const ids = (await Promise.all(calls)).map(({ value }) => value.callId as string)
    await eventually(async () => {
      const { value } = await api.get('/v1/calls?state=asked&limit=200')
      const asked = value.items.map(({ callId }: { callId: string }) => callId)
      return ids.every((id) => asked.includes(id)) ? true : undefined
    }, 'all calls asked')
    return ids
  }
  const decide = async (ids: readonly string[], decision: 'approve' | 'deny'): Promise<void> => {
    const { items } = await approvals.list({ limit: 200 }, bob)
    for (const { id } of items.filter(({ callId }) => ids.includes(callId))) {
      await approvals.decide(id, { decision }, bob)
    }
  }
  const endOf = async (id: string): Promise<string> => {
    for (;;) {
      const { value } = await api.get(`/v1/calls/${id}?waitMs=20000`)
      if (/^(?:ok|failed|denied|timeout|cancelled|unknown)$/.test(value.state)) return value.state
    }
  }

  const first = start('worker')
  await first.ready
  const calls = await submit()
  first.child.kill('SIGKILL')
  await first.ended
  assert.deepEqual(ran(), [])
  const approved = calls.slice(0, count / 2)
  await decide(approved, 'approve')
  await decide(calls.slice(count / 2), 'deny')
  const second = start('worker')
  const ends = await Promise.all(calls.map(endOf))
  assert.deepEqual(ends, [...approved.map(() => 'ok'), ...approved.map(() => 'denied')])
  assert.deepEqual(ran().toSorted(), approved.toSorted())

  const others = await submit()
  await decide(others, 'approve')
  await eventually(async () => (ran().length > approved.length ? true : undefined), 'one that runs')
  second.child.kill('SIGKILL')
  await second.ended
  start('worker')
  const rest = await Promise.all(others.map(endOf))
  const times = (id: string): number => ran().filter((line) => line === id).length
  for (const [index, id] of others.entries()) {
    assert.match(rest[index] ?? '', /^(?:ok|unknown)$/)
    assert.ok(times(id) <= 1, `${id} ran ${times(id)} times`)
    if (rest[index] === 'ok') assert.equal(times(id), 1)
  }
  assert.equal(await api.stop(), 0)
})
