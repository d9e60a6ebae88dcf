import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { defineTool } from '@gantry/core'
import { hasProgram } from '../../../scripts/engines/packages.ts'
import { type PostgresServer, startPostgres } from '../../../scripts/engines/postgres.ts'
import { mine, someCall, someEnding } from '../src/conformance/call-store/samples.ts'
import { sqlCallStore } from '../src/storage/calls/sql.ts'
import type { Database } from '../src/storage/databases/database.ts'
import { migrate } from '../src/storage/databases/migrate.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const skip = !hasProgram('postgres') && 'PostgreSQL is not installed'
const never = new AbortController().signal

/** A PostgreSQL server with a slow WAL writer, so that a crash loses commits that did not wait for a flush. */
async function lazyServer(t: TestContext): Promise<{ server: PostgresServer; database: Database }> {
  const server = await startPostgres({ settings: { wal_writer_delay: '10s' } })
  const database = await openPostgres({ url: server.url })
  t.after(async () => {
    await database.close()
    await server.stop()
  })
  await migrate(database)
  return { server, database }
}

async function crash(server: PostgresServer): Promise<void> {
  server.kill()
  await server.restart()
}

/** Retries: right after a crash a statement may use a closed connection. */
async function again<T>(work: () => Promise<T>): Promise<T> {
  for (let left = 20; ; left -= 1) {
    try {
      return await work()
    } catch (error) {
      if (left === 0) throw error
      await delay(100)
    }
  }
}

test('a crash of PostgreSQL loses calls that were not flushed, and none that were flushed or completed', {
  skip,
}, async (t) => {
  const { server, database } = await lazyServer(t)
  const store = sqlCallStore(database.asService())
  const unflushed = { unflushed: true }
  let lost = false
  for (let round = 0; round < 5 && !lost; round += 1) {
    await store.submit([someCall(`gone-${round}`)], mine, unflushed)
    await crash(server)
    lost = !(await again(() => store.flush(`gone-${round}`)))
  }
  assert.ok(lost, 'no call was lost, so this test shows nothing')

  await store.submit([someCall('flushed')], mine, unflushed)
  assert.equal(await store.flush('flushed'), true)
  await crash(server)
  assert.equal(await again(() => store.flush('flushed')), true)

  await store.submit([someCall('ended')], mine, unflushed)
  assert.deepEqual(await store.finish([someEnding({ callId: 'ended', fence: 1 })]), ['ended'])
  await crash(server)
  assert.deepEqual(await again(() => store.outcomes([{ callId: 'ended', fence: 1 }])), ['ended'])

  await store.submit([someCall('usual')], mine)
  await crash(server)
  assert.equal(await again(() => store.flush('usual')), true)
})

test('a waiter whose call the database lost gets SERVICE_UNAVAILABLE, and a stored call is never reported as lost', {
  skip,
}, async (t) => {
  const { server, database } = await lazyServer(t)
  let begun = Promise.withResolvers<void>()
  const slow = (effect: 'read' | 'keyed') =>
    defineTool({
      namespace: 'test',
      name: effect,
      description: 'Takes its time.',
      effect,
      inputSchema: { type: 'object' },
      async run(_args, { signal }) {
        begun.resolve()
        await delay(60_000, undefined, { signal })
        return {}
      },
    })
  const site = await openServiceSite(t, async () => database, { tools: [slow('read'), slow('keyed')] })
  const fate = async (effect: string): Promise<string> => {
    begun = Promise.withResolvers()
    const input = { kind: 'call' as const, tool: `test:${effect}`, args: {} }
    const { callId } = await site.service.submit(input, operator, { waits: true })
    await begun.promise
    const waiting = site.service.wait(callId, operator, 3_000, never)
    await crash(server)
    const answer = await waiting.then(
      () => 'kept',
      (error: { readonly code?: string; readonly retryable?: boolean }) => `${error.code} ${error.retryable}`,
    )
    if (answer !== 'kept') return answer
    assert.equal((await again(() => site.service.call(callId, operator))).callId, callId)
    await site.service.cancel(callId, operator)
    return answer
  }
  let answer = ''
  for (let round = 0; round < 5 && answer !== 'SERVICE_UNAVAILABLE true'; round += 1) answer = await fate('read')
  assert.equal(answer, 'SERVICE_UNAVAILABLE true', 'no call was lost, so this test shows nothing')
  assert.equal(await fate('keyed'), 'kept')
})
