import assert from 'node:assert/strict'
import type { StoredQuotas } from '../../config/tenant-limits.ts'
import { storedQuotas } from '../../config/tenant-limits.ts'
import { addRows, ago, type Stores, someCall, someEnd, testOnDatabases } from '../calls.fixture.ts'
import { removeExpired } from '../retention.ts'
import { artifactRecords } from './artifact-records.ts'
import { callerArtifacts } from './caller-artifacts.ts'

const { signal } = new AbortController()
const day = 86_400_000
const quotas: StoredQuotas = ({ tenant }) =>
  tenant === 'acme'
    ? { tenant: { bytes: 1_000, files: 10 }, principal: { bytes: 600, files: 10 } }
    : { tenant: { bytes: 1_000_000, files: 3 }, principal: { bytes: 1_000_000, files: 2 } }

function records({ database, store }: Stores) {
  const artifacts = artifactRecords(database, store, { quotas, refused: ({ scope }) => refusals.push(scope) })
  const refusals: string[] = []
  let number = 0
  const keep = (bytes: number, principal = 'ann', tenant = 'acme', callId = 'c1') => {
    number += 1
    const content = Buffer.alloc(bytes, `${number} `)
    const about = { tenant, principal, holder: { callId, fence: 1 }, name: 'a', mimeType: 'text/plain' }
    return artifacts.keep(content, about, { maxBytes: 10_000, signal })
  }
  const usage = async (): Promise<object> =>
    Object.fromEntries(
      (
        await database.query<{ name: string; used: string }>(
          `select tenant || '/' || principal as name, bytes || ' ' || files as used from stored_usage order by 1`,
        )
      ).map(({ name, used }) => [name, used]),
    )
  return { artifacts, keep, usage, refusals }
}

const over = (scope: string) => ({ code: 'LIMIT_EXCEEDED', details: { scope } })

async function refused(work: Promise<unknown>, scope: string): Promise<void> {
  await assert.rejects(work, (error: { code?: string; details?: { scope?: string }; effect?: string }) => {
    assert.deepEqual({ code: error.code, details: { scope: error.details?.scope } }, over(scope))
    assert.equal(error.effect, 'none')
    return true
  })
}

testOnDatabases({
  'a principal and a tenant store no more than their quotas, and leave no file of what was refused': async (stores) => {
    const { keep, usage, refusals } = records(stores)
    await keep(600)
    await refused(keep(1), 'principal')
    await keep(400, 'bob')
    await refused(keep(1, 'cem'), 'tenant')
    assert.deepEqual(refusals, ['principal', 'tenant'])
    assert.equal(await stores.files(), 2)
    assert.deepEqual(await usage(), { 'acme/': '1000 2', 'acme/ann': '600 1', 'acme/bob': '400 1' })
    await keep(1, 'ann', 'other')
    await keep(1, 'ann', 'other')
    await refused(keep(1, 'ann', 'other'), 'principal')
    await keep(1, 'bob', 'other')
    await refused(keep(1, 'cem', 'other'), 'tenant')
  },

  'of files that come at once exactly those are kept that fit': async (stores) => {
    const { keep, usage } = records(stores)
    const work = Array.from({ length: 30 }, (_, index) => keep(100, `p${index % 4}`))
    const kept = (await Promise.allSettled(work)).filter(({ status }) => status === 'fulfilled')
    assert.equal(kept.length, 10)
    assert.equal(await stores.files(), 10)
    const [sum] = await stores.database.query('select sum(bytes)::int as bytes, count(*)::int as files from artifacts')
    assert.deepEqual(sum, { bytes: 1_000, files: 10 })
    assert.equal(((await usage()) as { [name: string]: string })['acme/'], '1000 10')
  },

  'what expires, and what its owner removes, makes room again': async (stores) => {
    const { database, store } = stores
    const { artifacts, keep, usage } = records(stores)
    await addRows(database, 'calls', [someCall('old', { created_at: ago(8 * day), principal: 'ann' })])
    await addRows(database, 'results', [someEnd('old', { finished_at: ago(8 * day) })])
    await addRows(database, 'calls', [someCall('c1', { principal: 'ann' })])
    await keep(500, 'ann', 'acme', 'old')
    const { id } = await keep(100)
    await refused(keep(1), 'principal')
    await removeExpired(database, store, { callsMs: 7 * day, auditMs: 365 * day, signal })
    assert.deepEqual(await usage(), { 'acme/': '100 1', 'acme/ann': '100 1' })
    const ann = { principal: 'ann', tenant: 'acme', permissions: ['*'] }
    await callerArtifacts({ database, store, artifacts, maxBytes: () => 1_000 }).remove(id, ann, signal)
    assert.deepEqual(await usage(), {})
    await keep(600)
  },

  'the configuration sets quotas by tenant and principal, and there are some without it': async () => {
    const gib = 1_073_741_824
    const ann = { tenant: 'acme', principal: 'ann' }
    assert.deepEqual(storedQuotas({}, ann), {
      tenant: { bytes: 10 * gib, files: 1_000_000 },
      principal: { bytes: 5 * gib, files: 500_000 },
    })
    const given = { '*': { stored: { bytes: 100 } }, acme: { principals: { ann: { stored: { files: 7 } } } } }
    assert.deepEqual(storedQuotas(given, ann), {
      tenant: { bytes: 100, files: 1_000_000 },
      principal: { bytes: 50, files: 7 },
    })
  },
})
