import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Result } from '@gantry/contract'
import { postgresDatabase } from './databases.fixture.ts'
import { echo, openServiceSite, operator } from './service-site.fixture.ts'

const skewMs = 600_000
const never = new AbortController().signal

test('a worker whose clock is ten minutes ahead records when a call started by the time of the database', async (t) => {
  const { database } = await postgresDatabase(t)
  t.mock.timers.enable({ apis: ['Date'], now: Date.now() + skewMs })
  const site = await openServiceSite(t, async () => database, { tools: [echo] })
  const [row] = await database.query<{ at: Date }>('select clock_timestamp() as at')
  const begin = row?.at.getTime() ?? 0
  const single = await site.call('test:echo', {})
  const chain = await site.chain([{ id: 'a', tool: 'test:echo', args: {} }])
  const { callId } = await site.service.submit(
    { kind: 'call', tool: 'code:program', args: { code: 'return await tools.test.echo({})' } },
    operator,
  )
  const program = (await site.service.wait(callId, operator, 20_000, never)) as Result | undefined
  assert.equal(program?.status, 'ok', JSON.stringify(program?.error))
  const times = [single.outcome, chain.outcome, program, ...(program?.program?.calls ?? [])].map(
    (one) => one?.startedAt,
  )
  assert.equal(times.length, 4)
  for (const time of times) {
    const sinceBegin = Date.parse(time ?? '') - begin
    assert.ok(Math.abs(sinceBegin) < skewMs / 2, `${time} is ${sinceBegin} ms after the begin`)
  }
})
