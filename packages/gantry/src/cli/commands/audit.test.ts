import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { createAuditControl } from '@gantry/service/internal/storage/audit/audit-control'
import { createSealer } from '@gantry/service/internal/storage/audit/sealer'
import { openPglite } from '@gantry/service/internal/storage/databases/pglite'
import { sealedRows, tamper } from '../../../../service/src/storage/audit/audit.fixture.ts'
import { pgliteFolder } from '../../../../service/test/databases.fixture.ts'
import { startServiceRig } from '../service.fixture.ts'

const never = new AbortController().signal

test('audit ls and export print the entries of the service, and audit verify runs there', async (t) => {
  const { gantry, json, service } = await startServiceRig(t)
  assert.match(
    (await gantry(['audit', 'ls', '--phase', 'end'])).out,
    /^row +at +tenant .*\n7 +2026-01-01T00:00:00\.0+Z +acme/,
  )
  assert.equal((await json(['audit', 'ls'])).values[0].items[0].seq, 7)
  assert.match((await gantry(['audit', 'export', '--tenant', '*'])).out, /^\{"kind":"row","seq":7,.*\}\n$/)
  const fine = await gantry(['audit', 'verify'])
  assert.deepEqual([fine.code, fine.out.split('\n')[0]], [0, 'verified: ok'])
  Object.assign(service.audit, {
    verify: async (head: string) => ({
      ok: false,
      seals: 1,
      rows: 1,
      unsealed: 0,
      findingsTotal: 3,
      findings: [{ what: 'head', seal: 9, message: `No \u001b[2J${head}.` }],
    }),
  })
  const head = `9:${'a'.repeat(64)}`
  const broken = await gantry(['audit', 'verify', '--head', head])
  assert.equal(broken.code, 1)
  assert.match(broken.out, /^verified: BROKEN\n(?:.*\n)*head: No \\e\[2J9:a{64}\.\nand 2 more\n$/)
  assert.equal((await json(['audit', 'verify'])).values[0].ok, false)
})

test('audit verify checks a file, or a database without a running service', async (t) => {
  const { gantry, folder } = await startServiceRig(t)
  const data = await pgliteFolder(t)
  const database = await openPglite({ folder: data })
  await sealedRows(database, 6)
  const control = createAuditControl(database, { sealer: createSealer({ database }), keys: [] })
  const owner = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
  let all = ''
  for await (const line of control.export({ tenant: '*' }, owner, never)) all += line
  let own = ''
  for await (const line of control.export({}, owner, never)) own += line
  await tamper(database, 'delete from audit where seq = 2')
  await database.close()

  const file = (name: string, text: string): string => {
    writeFileSync(join(folder, name), text)
    return name
  }
  const fine = await gantry(['audit', 'verify', '--file', file('all.jsonl', all)])
  assert.deepEqual([fine.code, fine.out.split('\n').slice(0, 3)], [0, ['verified: ok', 'rows: 6', 'seals: 2']])
  const broken = await gantry(['audit', 'verify', '--file', file('changed.jsonl', all.replace('alice', 'mallory'))])
  assert.equal(broken.code, 1)
  assert.match(broken.out, /^changed: Row \d+ is not the one that seal 1 covers\.$/m)
  const partly = await gantry(['audit', 'verify', '--file', file('own.jsonl', own)])
  assert.match(partly.err, /INPUT_INVALID.*holds no seals/)
  const torn = await gantry(['audit', 'verify', '--file', file('torn.jsonl', all.slice(0, -30))])
  assert.match(torn.err, /Line 8 of .* is neither an entry nor a seal/)

  const here = await gantry(['audit', 'verify', '--data', data])
  assert.equal(here.code, 1, here.err)
  assert.match(here.out, /^missing: Row \d+ is missing; seal 1 covers it\.$/m)
})
