import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { AuditVerdict, ToolError } from '@gantry/contract'
import { testOnDatabases } from '../calls.fixture.ts'
import { sealedRows, tamper, verified } from './audit.fixture.ts'
import { createAuditControl } from './audit-control.ts'
import { readAuditFile } from './audit-file.ts'
import { createSealer } from './sealer.ts'
import { verifyAudit } from './verify.ts'

const { signal } = new AbortController()

testOnDatabases({
  'the service role cannot choose the number of an entry, nor seal numbers beyond the sequence': async ({
    database,
  }) => {
    await sealedRows(database, 5)
    const forged = (seq: string) => `
      insert into audit (seq, tenant, principal, call_id, fence, phase, tool) overriding system value
      values (${seq}, 'acme', 'mallory', 'c', 1, 'end', 't')`
    const seal = (n: string, upto: string) => `
      insert into audit_seals select ${n}, hash, upto_seq, ${upto}, '{}', '', now(), null, hash from audit_seals
      order by n desc limit 1`
    for (const statement of [
      forged('9223372036854775807'),
      forged('9999999'),
      forged('default'),
      "select setval('audit_seq_seq', 9999999)",
      "select nextval('audit_seq_seq')",
      seal('n + 1', '9999999'),
      seal('n + 1', '9223372036854775807'),
      seal('9223372036854775807', 'upto_seq'),
    ]) {
      const error = (await database.query(statement).catch((thrown: unknown) => thrown)) as ToolError
      assert.deepEqual([statement, error.details?.sqlstate], [statement, '42501'])
    }
    await database.query(seal('n + 1', 'upto_seq'))
    await tamper(database, 'delete from audit_seals where n = 2')
    await sealedRows(database, 5)
    const { ok, rows, unsealed } = await verified(database)
    assert.deepEqual([ok, rows, unsealed], [true, 10, 0])
  },

  'an entry numbered outside the sequence is reported and never sealed, and does not disturb sealing or listing':
    async ({ database }, t) => {
      const control = createAuditControl(database, { sealer: createSealer({ database }), keys: [] })
      const owner = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
      await tamper(database, 'truncate audit, audit_seals restart identity')
      for (const seq of ['9223372036854775807', '-9223372036854775808', '9999999']) {
        await tamper(
          database,
          `insert into audit (seq, tenant, principal, call_id, fence, phase, tool) overriding system value
           values (${seq}, 'acme', 'mallory', 'c', 1, 'end', 't')`,
        )
      }
      assert.deepEqual((await control.list({}, owner)).items, [], 'also without other entries')
      await sealedRows(database, 6)
      const messages = (found: AuditVerdict) => found.findings.map(({ what, message }) => `${what} ${message}`)
      const verdict = await control.verify(undefined, owner, signal)
      assert.deepEqual(
        messages(verdict),
        ['-9223372036854775808', '9999999', '9223372036854775807'].map(
          (seq) => `inserted Row ${seq} was inserted: the sequence never produced this number.`,
        ),
      )
      assert.deepEqual([verdict.ok, verdict.rows, verdict.unsealed], [false, 6, 0])
      for (const tenant of ['acme', '*']) {
        const { items } = await control.list({ tenant }, owner)
        assert.deepEqual(
          items.map(({ seq }) => seq),
          [6, 5, 4, 3, 2, 1],
        )
      }
      const exported = async (tenant: string): Promise<string[]> => {
        const lines: string[] = []
        for await (const line of control.export({ tenant }, owner, signal)) lines.push(line)
        return lines
      }
      assert.equal((await exported('acme')).length, 6)
      const folder = await mkdtemp(join(tmpdir(), 'gantry-audit-'))
      t.after(() => rm(folder, { recursive: true }))
      const file = join(folder, 'audit.jsonl')
      await writeFile(file, (await exported('*')).join(''))
      assert.deepEqual(await verifyAudit(readAuditFile(file, signal)), verdict)
    },
})
