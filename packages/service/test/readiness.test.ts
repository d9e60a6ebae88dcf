import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { JsonObject } from '@gantry/contract'
import { postgresDatabase } from './databases.fixture.ts'
import { failingDatabase } from './failing-store.fixture.ts'
import { echo, openServiceSite, operator } from './service-site.fixture.ts'

async function openFailing(t: TestContext, service: JsonObject) {
  const failing = failingDatabase((await postgresDatabase(t)).database)
  const site = await openServiceSite(t, async () => failing.database, { tools: [echo] }, service)
  const submit = () => site.service.submit({ kind: 'call', tool: 'test:echo', args: {} }, operator)
  const storeUp = async (): Promise<boolean> => /^gantry_store_up 1$/m.test((await site.service.metrics()).text)
  /** Resolves once readiness has this value; the test's timeout bounds the wait. */
  const until = async (ready: boolean): Promise<void> => {
    while ((await site.service.ready()).ready !== ready) {
      t.signal.throwIfAborted()
      await new Promise(setImmediate)
    }
  }
  return { ...failing, ...site, submit, storeUp, until }
}

test('while the database recovers from an outage but rejects writes, readiness, gauge and health report it unavailable', {
  timeout: 60_000,
}, async (t) => {
  const site = await openFailing(t, {})
  assert.deepEqual([(await site.service.ready()).ready, await site.storeUp()], [true, true])
  site.fail('all')
  await site.until(false)
  site.fail('writes')
  for (let beats = 0; beats < 2; beats += 1) await site.refused('insert into workers')
  await assert.rejects(site.submit(), { code: 'STORE_UNAVAILABLE' })
  const { ready, problems } = await site.service.ready()
  assert.deepEqual([ready, await site.storeUp()], [false, false])
  assert.match(problems.join(), /database/)
  const { dependencies } = await site.service.health(operator)
  assert.deepEqual(
    dependencies.filter(({ up }) => !up).map(({ dependency }) => dependency),
    ['database'],
  )
  site.fail('nothing')
  await site.until(true)
  assert.equal(await site.storeUp(), true)
  await site.submit()
})

test('an API process becomes ready again after a short outage without a call that probes the database', {
  timeout: 60_000,
}, async (t) => {
  const site = await openFailing(t, { roles: ['api'] })
  site.fail('all')
  for (let n = 0; n < 5; n += 1) await assert.rejects(site.submit(), { code: 'STORE_UNAVAILABLE' })
  assert.equal((await site.service.ready()).ready, false)
  site.fail('nothing')
  await site.until(true)
  assert.equal(await site.storeUp(), true)
})
