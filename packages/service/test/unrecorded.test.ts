import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { Database } from '../src/storage/databases/database.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import { breakSpool, failingDatabase } from './failing-store.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'

const never = new AbortController().signal

/** A service whose tool `test:act` has effect `once` and returns when the test calls `end`. */
async function openFailing(t: TestContext, open: (t: TestContext) => Promise<Database>) {
  const failing = failingDatabase(await open(t))
  const gate = Promise.withResolvers<void>()
  const acted: unknown[] = []
  const act = sampleTool({
    name: 'act',
    description: 'Acts once.',
    effect: 'once',
    async run({ n }: { n?: unknown }) {
      acted.push(n)
      started()
      await gate.promise
      return { n }
    },
  })
  let started = (): void => undefined
  const lines: string[] = []
  let heard = (): void => undefined
  const site = await openServiceSite(
    t,
    async () => failing.database,
    { tools: [act] },
    { slots: 4, leaseMs: 5_000 },
    (line) => {
      lines.push(line)
      heard()
    },
  )
  /** Resolves once this many log lines hold the text. */
  const logged = (text: string, times: number): Promise<void> =>
    new Promise((resolve) => {
      heard = () => {
        if (lines.filter((line) => line.includes(text)).length >= times) resolve()
      }
      heard()
    })
  const submit = (n: number) =>
    site.service.submit({ kind: 'call', tool: 'test:act', args: { n }, idempotencyKey: `k${n}` }, operator)
  /** Submits calls and resolves with their ids once all of them run. */
  const run = async (count: number): Promise<readonly string[]> => {
    const running = new Promise<void>((resolve) => {
      started = () => void (acted.length === count && resolve())
    })
    const calls = await Promise.all(Array.from({ length: count }, (_, n) => submit(n)))
    await running
    return calls.map(({ callId }) => callId)
  }
  const metric = async (name: string): Promise<number> => {
    const { text } = await site.service.metrics()
    return Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(text)?.[1])
  }
  return { ...failing, ...site, acted, logged, run, submit, metric, lines, end: () => gate.resolve() }
}

const engines = {
  'a full disk under the embedded database': pgliteDatabase,
  'PostgreSQL unreachable': async (t: TestContext) => (await postgresDatabase(t)).database,
}

for (const [what, open] of Object.entries(engines)) {
  test(`${what} and a spool that fails: outcomes stay in memory, admission stops, and the calls end ok after recovery`, {
    timeout: 60_000,
  }, async (t) => {
    const site = await openFailing(t, open)
    const ids = await site.run(3)
    const repair = breakSpool(site.data)
    site.fail('all')
    site.end()
    await site.logged('outcome not recorded', 3)

    assert.equal(await site.metric('gantry_unrecorded_outcomes'), 3)
    const { ready, problems } = await site.service.ready()
    assert.equal(ready, false)
    for (const id of ids)
      assert.ok(
        problems.some((problem) => problem.includes(id)),
        `${id} in ${problems}`,
      )
    const { unrecorded } = await site.service.health(operator)
    assert.deepEqual(unrecorded.map(({ callId }) => callId).toSorted(), ids.toSorted())
    const stranger = { ...operator, tenant: 'other', permissions: ['gantry:operate'] }
    assert.deepEqual((await site.service.health(stranger)).unrecorded, [])
    await assert.rejects(site.submit(9), { code: 'SERVICE_UNAVAILABLE' })

    repair()
    site.fail('nothing')
    for (const id of ids) {
      const outcome = await site.service.wait(id, operator, 20_000, never)
      assert.equal(outcome?.status, 'ok', JSON.stringify(outcome?.error))
      assert.equal((await site.service.call(id, operator)).result?.status, 'ok')
    }
    await site.logged('held outcome recorded', 3)
    assert.equal(site.acted.length, 3, 'a tool ran twice')
    assert.equal(await site.metric('gantry_unrecorded_outcomes'), 0)
    const { callId } = await site.submit(10)
    assert.equal((await site.service.wait(callId, operator, 20_000, never))?.status, 'ok')
  })
}

test('an outcome that the database rejects and the spool stores is not unrecorded', { timeout: 60_000 }, async (t) => {
  const site = await openFailing(t, pgliteDatabase)
  const [id = ''] = await site.run(1)
  site.fail('all')
  site.end()
  await site.logged('outcomes wait', 1)
  assert.ok(existsSync(join(site.data, 'spool')))
  assert.equal(await site.metric('gantry_unrecorded_outcomes'), 0)
  site.fail('nothing')
  assert.equal((await site.service.wait(id, operator, 20_000, never))?.status, 'ok')
})

test('a service that stops with unrecorded outcomes logs the calls whose outcome it loses', {
  timeout: 60_000,
}, async (t) => {
  const site = await openFailing(t, pgliteDatabase)
  const ids = await site.run(2)
  const repair = breakSpool(site.data)
  site.fail('all')
  site.end()
  await site.logged('outcome not recorded', 2)
  await site.stop(200)
  const lost = site.lines.filter((line) => line.includes('outcome lost'))
  for (const id of ids) assert.ok(lost.some((line) => line.includes(id)))
  repair()
})
