import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { sharedDigest } from '../src/config/shared-settings.ts'
import { openPostgres } from '../src/storage/databases/postgres.ts'
import { fingerprintsOf, type SharedTexts } from '../src/storage/server-comparison.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase, postgresDatabase } from './databases.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'
import { echo, openServiceSite } from './service-site.fixture.ts'

interface Line {
  readonly msg: string
  readonly what?: string
  readonly worker?: string
  readonly level: string
}

const key = `gk_${'x'.repeat(43)}`

/** Starts servers on one PostgreSQL database. */
async function openServers(t: TestContext) {
  const { url, database } = await postgresDatabase(t)
  return {
    database,
    async start(texts: SharedTexts, tools = [echo]) {
      const lines: Line[] = []
      const site = await openServiceSite(
        t,
        async (own) => {
          const opened = await openPostgres({ url })
          own.after(() => opened.close())
          return opened
        },
        { tools },
        {},
        (line) => lines.push(JSON.parse(line)),
        { sharedTexts: async () => texts },
      )
      return { site, lines, warned: () => lines.filter(({ msg }) => msg.includes('another server')) }
    },
  }
}

test('a server whose keys, tools or artifacts differ from those of another is named in log, list and metric', async (t) => {
  const { start, database } = await openServers(t)
  await start({ api_key: key, callback_key: 'one', configuration: 'c' })
  const tools = [echo, sampleTool({ name: 'more', description: 'More.', run: async () => ({}) })]
  const second = await start({ api_key: key, callback_key: 'two', configuration: 'c' }, tools)
  await eventually(async () => (second.warned().length === 3 ? true : undefined), 'three warnings')
  const found = ['callback_key', 'tools', 'artifacts']
  assert.deepEqual(
    second.warned().map(({ what, level }) => [what, level]),
    found.map((what) => [what, 'warn']),
  )
  assert.equal(
    second.warned()[0]?.msg,
    'the callback key of another server differs from that of this one: name one secret in service.callbackSecret, or copy the file `callback-key`',
  )
  const workers = await second.site.service.workers()
  const other = workers.find(({ differs }) => differs !== undefined)
  assert.equal(workers.length, 2)
  assert.deepEqual(other?.differs, found)
  assert.equal(second.warned()[0]?.worker, other?.worker)
  const { text } = await second.site.service.metrics('whole')
  for (const [what, count] of [
    ['callback_key', 1],
    ['artifacts', 1],
    ['api_key', 0],
    ['configuration', 0],
  ])
    assert.match(text, new RegExp(`^gantry_server_mismatch\\{what="${what}"\\} ${count}$`, 'm'))

  const rows = await database.query('select fingerprints::text as stored from gantry.workers')
  const stored = rows.map(({ stored }) => String(stored)).join()
  for (const secret of [key, 'one', 'two']) assert.ok(!stored.includes(`"${secret}"`))
})

test('equal values have equal fingerprints in one database and others elsewhere, and part by part', async () => {
  const texts = { api_key: 'same', callback_key: 'same' }
  const one = await fingerprintsOf(texts, 'salt')
  assert.deepEqual(await fingerprintsOf(texts, 'salt'), one)
  const other = await fingerprintsOf(texts, 'other salt')
  const all = [one.api_key, one.callback_key, other.api_key, other.callback_key]
  assert.equal(new Set(all).size, 4)
  assert.ok(all.every((text) => /^[0-9a-f]{24}$/.test(text ?? '')))
})

test('a process with an embedded database compares nothing', async (t) => {
  const asked: string[] = []
  const { service } = await openServiceSite(t, pgliteDatabase, { tools: [echo] }, {}, undefined, {
    sharedTexts: async () => {
      asked.push('asked')
      return {}
    },
  })
  assert.equal((await service.workers()).length, 1)
  assert.deepEqual(asked, [])
})

test('the digest of shared settings covers policy and limits, and not what belongs to one process', () => {
  const shared = { policy: { rules: [{ allow: '*' }] }, service: { inlineBytes: 5 } }
  const own = { host: '0.0.0.0', port: 1, roles: ['api'], slots: 3, labels: { zone: 'eu' }, metricsPort: 9 } as const
  const digest = sharedDigest(shared)
  assert.equal(
    sharedDigest({ databaseUrl: 'postgres://other/x', service: { ...own, inlineBytes: 5 }, policy: shared.policy }),
    digest,
  )
  assert.notEqual(sharedDigest({ ...shared, policy: { rules: [{ deny: '*' }] } }), digest)
  assert.notEqual(sharedDigest({ ...shared, service: { inlineBytes: 6 } }), digest)
})
