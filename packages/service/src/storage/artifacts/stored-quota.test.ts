import assert from 'node:assert/strict'
import { type StoredQuotas, storedQuotas } from '../../config/tenant-limits.ts'
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

const unlimited: StoredQuotas = () => {
  const quota = { bytes: 1_000_000, files: 1_000 }
  return { tenant: quota, principal: quota }
}

function records({ database, store }: Stores, limits = quotas) {
  const artifacts = artifactRecords(database, store, { quotas: limits, refused: ({ scope }) => refusals.push(scope) })
  const refusals: string[] = []
  const put = (content: string | Buffer, principal: string, tenant = 'acme', callId = 'c1') => {
    const about = { tenant, principal, holder: { callId, fence: 1 }, name: 'a', mimeType: 'text/plain' }
    return artifacts.keep(Buffer.from(content), about, { maxBytes: 10_000, signal })
  }
  let number = 0
  const keep = (bytes: number, principal = 'ann', tenant = 'acme', callId = 'c1') => {
    number += 1
    return put(Buffer.alloc(bytes, `${number} `), principal, tenant, callId)
  }
  const usage = async (): Promise<object> =>
    Object.fromEntries(
      (
        await database.query<{ name: string; used: string }>(
          `select tenant || '/' || principal as name, bytes || ' ' || files as used from stored_usage order by 1`,
        )
      ).map(({ name, used }) => [name, used]),
    )
  return { artifacts, put, keep, usage, refusals }
}

/** The usage, recomputed from the artifacts. */
const exactSql = `
  select tenant || '/' || principal as name, sum(bytes) || ' ' || sum(files) as used
  from (
    select tenant, principal, max(bytes) as bytes, count(*) as files from (
      select tenant, '' as principal, digest, bytes from artifacts
      union all select tenant, principal, digest, bytes from artifacts
    ) as both_scopes group by tenant, principal, digest
  ) as contents group by tenant, principal order by 1`

const over = (scope: string) => ({ code: 'LIMIT_EXCEEDED', details: { scope } })

async function refused(work: Promise<unknown>, scope: string): Promise<void> {
  await assert.rejects(work, (error: { code?: string; details?: { scope?: string }; effect?: string }) => {
    assert.deepEqual({ code: error.code, details: { scope: error.details?.scope } }, over(scope))
    assert.equal(error.effect, 'none')
    return true
  })
}

testOnDatabases({
  'quotas of principals and tenants are enforced, and a refused file is not left behind': async (stores) => {
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

  'concurrent puts fill the quota exactly': async (stores) => {
    const { keep, usage } = records(stores)
    const work = Array.from({ length: 30 }, (_, index) => keep(100, `p${index % 4}`))
    const kept = (await Promise.allSettled(work)).filter(({ status }) => status === 'fulfilled')
    assert.equal(kept.length, 10)
    assert.equal(await stores.files(), 10)
    const [sum] = await stores.database.query('select sum(bytes)::int as bytes, count(*)::int as files from artifacts')
    assert.deepEqual(sum, { bytes: 1_000, files: 10 })
    assert.equal(((await usage()) as { [name: string]: string })['acme/'], '1000 10')
  },

  'the same content counts its bytes once per tenant and per principal, until its last artifact is removed': async (
    stores,
  ) => {
    const { database } = stores
    const { put, usage } = records(stores)
    const same = 'x'.repeat(500)
    const kept = await Promise.all([put(same, 'ann'), put(same, 'ann'), put(same, 'bob'), put(same, 'bob')])
    assert.deepEqual(await usage(), { 'acme/': '500 4', 'acme/ann': '500 2', 'acme/bob': '500 2' })
    await put('y'.repeat(400), 'cem')
    await put('z'.repeat(100), 'cem')
    await refused(put('w', 'bob'), 'tenant')
    kept.push(await put(same, 'bob'))
    await refused(put(same, 'cem'), 'principal')
    assert.equal(await stores.files(), 3)
    const ids = kept.map(({ id }) => id)
    const remove = (some: readonly string[]) =>
      database.query('delete from artifacts where id = any ($1::text[])', [some])
    await Promise.all([remove(ids.slice(0, 2)), remove(ids.slice(2, 4))])
    assert.deepEqual(await usage(), { 'acme/': '1000 3', 'acme/bob': '500 1', 'acme/cem': '500 2' })
    await remove(ids.slice(4))
    assert.deepEqual(await usage(), { 'acme/': '500 2', 'acme/cem': '500 2' })
    await database.query('delete from artifacts')
    assert.deepEqual([await usage(), await database.query('select from stored_digests')], [{}, []])
  },

  'concurrent puts and removals of the same content leave an exact usage': async (stores) => {
    const { database } = stores
    const { put, usage } = records(stores, unlimited)
    const one = async (round: number): Promise<void> => {
      const { id } = await put(`content ${round % 2}`, `p${round % 3}`)
      if (round % 4 > 0) await database.query('delete from artifacts where id = $1', [id])
    }
    await Promise.all(Array.from({ length: 24 }, (_, round) => one(round)))
    const rows = await database.query<{ name: string; used: string }>(exactSql)
    assert.deepEqual(await usage(), Object.fromEntries(rows.map(({ name, used }) => [name, used])))
  },

  'expired and removed artifacts free their quota': async (stores) => {
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

  'quotas come from the configuration of tenants and principals, with defaults': async () => {
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
