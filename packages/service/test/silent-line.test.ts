import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { postgresDatabase } from './databases.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const never = new AbortController().signal
const input = { kind: 'call' as const, tool: 'test:read', args: {} }

const read = sampleTool({
  name: 'read',
  description: 'Changes nothing.',
  run: async () => ({}),
})

test('a stalled connection with inserts in flight delays no other call, and none is lost', async (t) => {
  const { url, database } = await postgresDatabase(t)
  const serviceDatabase = await openPostgres({ url })
  t.after(() => serviceDatabase.close())
  const site = await openServiceSite(t, async () => serviceDatabase, { tools: [read] })
  const call = async (): Promise<string | undefined> => {
    const { callId } = await site.service.submit(input, operator, { waits: true })
    return (await site.service.wait(callId, operator, 30_000, never))?.status
  }
  const backendOf = async (): Promise<number | undefined> => {
    const sql = `select pid from pg_stat_activity where datname = current_database() and application_name = 'gantry line'`
    const [row] = await database.query<{ pid: number }>(sql)
    return row?.pid
  }
  let pid: number | undefined
  // The first call opens the connection for inserts ahead of the commit, and itself uses another one.
  for (; pid === undefined; pid = await backendOf()) assert.equal(await call(), 'ok')
  while (
    (await database.query(`select from pg_stat_activity where pid = $1 and query like '%set role%'`, [pid])).length
  ) {
    assert.equal(await call(), 'ok')
  }
  process.kill(pid, 'SIGSTOP')
  try {
    const stuck = call()
    await delay(300)
    for (let n = 0; n < 20; n += 1) assert.equal(await call(), 'ok')
    process.kill(pid, 'SIGCONT')
    assert.equal(await stuck, 'ok')
  } finally {
    process.kill(pid, 'SIGCONT')
  }
})
