import assert from 'node:assert/strict'
import type { AuditVerdict } from '@gantry/contract'
import { addRows, testOnDatabases } from '../calls.fixture.ts'
import type { Database } from '../databases/database.ts'
import { age, places, sealedRows, someRow, tamper, verified } from './audit.fixture.ts'
import { sealKey } from './entries.ts'
import { createSealer, retireAudit } from './sealer.ts'

const day = 86_400_000
const key = sealKey('the key of the service')
const other = sealKey('the key before that one')
const keys = [key]

/** Resets the audit log to entries 1 to 20 under seals 1 to 4 of five entries each, keyed and `days` old. */
async function prepare(database: Database, days: number): Promise<void> {
  await tamper(database, 'truncate audit, audit_seals restart identity')
  await sealedRows(database, 20, 5, key)
  await age(database, days, key)
}

function retire(database: Database, given = keys, most = 10): Promise<number> {
  return database.asService().transaction((queries) => retireAudit(queries, { keepMs: 2 * day, most, keys: given }))
}

async function resealed(database: Database, head?: string): Promise<AuditVerdict> {
  await createSealer({ database: database.asService(), key }).seal()
  return verified(database, { keys, head })
}

/** Deletes seals 1 and 2 with their entries; returns the details of a matching `audit.retire` entry. */
async function cut(database: Database): Promise<{ [name: string]: unknown }> {
  const [last] = await database.query<{ hash: string }>('select hash from audit_seals where n = 2')
  await tamper(database, 'delete from audit where seq <= 10', 'delete from audit_seals where n <= 2')
  return { seal: 2, hash: last?.hash, uptoSeq: 10, rows: 10 }
}

async function note(database: Database, details: object): Promise<void> {
  const about = { tenant: '', principal: 'gantry', call_id: '', fence: 0, phase: 'admin', tool: 'audit.retire' }
  await addRows(database.asService(), 'audit', [someRow({ ...about, details: JSON.stringify(details) })])
}

testOnDatabases({
  'a deleted start of the chain is reported although an entry claims that it was retired': async ({ database }) => {
    await prepare(database, 0)
    const { head } = await verified(database, { keys })
    const said = await cut(database)
    assert.deepEqual(places(await verified(database, { keys })), ['seal - in 1'])
    for (const more of [
      {},
      { keyId: key.id },
      { keyId: key.id, proof: 'f'.repeat(64) },
      { keyId: null, proof: null },
    ]) {
      await note(database, { ...said, ...more })
      for (const before of [undefined, head]) {
        const { ok, findings, retired } = await resealed(database, before)
        assert.deepEqual([ok, findings.map(({ what }) => what), retired?.proven], [false, ['unproven'], false])
      }
    }
    const { ok, retired } = await verified(database)
    assert.equal(ok, false, 'also without the key')
    assert.equal(retired?.proven, false)
  },

  'a retirement is proven with the key, also when a forged retire entry follows it': async ({ database }) => {
    await prepare(database, 3)
    const { head } = await verified(database, { keys })
    assert.equal(await retire(database, keys, 2), 10)
    await note(database, { seal: 3, hash: '0'.repeat(64), uptoSeq: 15 })
    const { ok, findings, seals, retired } = await resealed(database, head)
    assert.deepEqual([ok, findings, seals, retired?.seal, retired?.proven], [true, [], 3, 2, true])
    assert.deepEqual([await retire(database), await retire(database)], [10, 0])
    const again = await resealed(database, head)
    assert.deepEqual([again.ok, again.retired?.seal, again.retired?.uptoSeq], [true, 4, 20])
  },

  'the proof of a retirement is valid for one seal, and only with a known key': async ({ database }) => {
    await prepare(database, 3)
    await retire(database, [other, key], 1)
    assert.equal((await resealed(database)).findings[0]?.what, 'unproven')
    assert.equal((await verified(database, { keys: [key, other] })).ok, true)
    await tamper(database, 'delete from audit where seq between 6 and 10', 'delete from audit_seals where n = 2')
    assert.deepEqual(places(await verified(database, { keys: [key, other] })), ['seal - in 1'])
  },

  'retireAudit refuses seals with a forged time or an unknown key': async ({ database }) => {
    const tried: [days: number, statements: string[], said: RegExp][] = [
      [1.5, ["update audit_seals set sealed_at = sealed_at - interval '9 days' where n <= 2"], /seal 2 was changed/],
      [3, ["update audit_seals set key_id = 'f00' where n <= 3"], /seal 3 .* not known here, f00; name it/],
      [3, ['update audit_seals set key_id = null where n <= 3'], /seal 3 was changed/],
    ]
    for (const [days, statements, said] of tried) {
      await prepare(database, days)
      await tamper(database, "update audit set at = at - interval '9 days'", ...statements)
      await assert.rejects(retire(database), { code: 'INTERNAL', message: said })
      assert.equal((await database.query('select n from audit_seals')).length, 4)
    }
    await prepare(database, 1.5)
    await tamper(database, "update audit set at = at - interval '9 days'")
    assert.equal(await retire(database), 0, 'a young seal covers no old entry')
  },
})
