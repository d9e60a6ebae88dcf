import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { AuditVerdict, ToolError } from '@gantry/contract'
import { hasProgram, searchPath } from '../../../../../scripts/engines/packages.ts'
import { postgresDatabase } from '../../../test/databases.fixture.ts'
import { addRows, testOnDatabases } from '../calls.fixture.ts'
import { places, sealedRows, someRow, tamper, verified } from './audit.fixture.ts'
import { createAuditControl } from './audit-control.ts'
import { readAuditFile } from './audit-file.ts'
import { sealKey } from './entries.ts'
import { createSealer } from './sealer.ts'
import { verifyAudit } from './verify.ts'

const { signal } = new AbortController()

/** Changes to entries 1 to 20 under seals 1 to 4, five each, with the findings that verification must report. */
const tampering: { readonly [what: string]: readonly [statements: readonly string[], found: readonly string[]] } = {
  nothing: [[], []],
  'one byte of a row': [['update audit set details = \'{"n":8}\' where seq = 7'], ['changed 7 in 2']],
  'one letter of its case': [["update audit set principal = 'Alice' where seq = 7"], ['changed 7 in 2']],
  'a microsecond': [["update audit set at = at + interval '1 microsecond' where seq = 1"], ['changed 1 in 1']],
  'a time into nonsense': [["update audit set at = 'infinity' where seq = 20"], ['changed 20 in 4']],
  'a null into an empty text': [["update audit set details = '' where seq = 9"], ['changed 9 in 2']],
  'text from one column into the next': [
    ["update audit set principal = 'alic', call_id = 'ec13' where seq = 13"],
    ['changed 13 in 3'],
  ],
  'a row removed': [['delete from audit where seq = 11'], ['missing 11 in 3']],
  'the last row removed': [['delete from audit where seq = 20'], ['missing 20 in 4']],
  'a row for another': [
    [
      'delete from audit where seq = 12',
      `insert into audit (seq, tenant, principal, call_id, fence, phase, tool) overriding system value
       values (12, 'acme', 'mallory', 'c12', 1, 'start', 't')`,
    ],
    ['changed 12 in 3'],
  ],
  'two rows swapped': [
    [
      'update audit set seq = -seq where seq in (3, 17)',
      'update audit set seq = case seq when -3 then 17 else 3 end where seq in (-3, -17)',
    ],
    ['changed 3 in 1', 'changed 17 in 4'],
  ],
  'a row moved into a gap': [
    ['delete from audit where seq = 4', 'update audit set seq = 4 where seq = 14'],
    ['changed 4 in 1', 'missing 14 in 3'],
  ],
  'a row behind the last number that we count': [
    ['update audit set seq = 9223372036854775807 where seq = 5'],
    ['missing 5 in 1', 'inserted - in -'],
  ],
  'a row behind the last number that was given out': [
    ['update audit set seq = 9999999 where seq = 5'],
    ['missing 5 in 1', 'inserted 9999999 in -'],
  ],
  'a row before all that we count': [
    ['update audit set seq = -9223372036854775808 where seq = 5'],
    ['missing 5 in 1', 'inserted - in -'],
  ],
  'a row before the first': [['update audit set seq = -1 where seq = 6'], ['inserted -1 in 1', 'missing 6 in 2']],
  'one byte of a digest in a seal': [
    ['update audit_seals set digests = set_byte(digests, 40, get_byte(digests, 40) # 1) where n = 2'],
    ['seal - in 2'],
  ],
  'the hash of a seal': [
    ["update audit_seals set hash = translate(hash, '0123', '1032') where n = 2"],
    ['seal - in 2'],
  ],
  'the link of a seal': [
    ["update audit_seals set prev = translate(prev, '0123', '1032') where n = 3"],
    ['seal - in 3', 'chain - in 3'],
  ],
  'the time of a seal': [
    ["update audit_seals set sealed_at = sealed_at - interval '1 day' where n = 4"],
    ['seal - in 4'],
  ],
  'a number in a seal': [['update audit_seals set seqs[2] = 99 where n = 1'], ['seal - in 1']],
  'a seal removed': [['delete from audit_seals where n = 2'], ['seal - in 2']],
  'the first seal removed': [['delete from audit_seals where n = 1'], ['seal - in 1']],
  'a seal removed with its rows': [
    ['delete from audit_seals where n = 2', 'delete from audit where seq between 6 and 10'],
    ['seal - in 2'],
  ],
  'the first seals removed with their rows': [
    ['delete from audit_seals where n <= 2', 'delete from audit where seq <= 10'],
    ['seal - in 1'],
  ],
  'two seals swapped': [
    ['update audit_seals set n = -n where n in (2, 3)', 'update audit_seals set n = 5 + n where n < 0'],
    ['seal - in 2', 'chain - in 2', 'seal - in 3', 'chain - in 3'],
  ],
}

testOnDatabases({
  'verification reports every change of entries or seals with its position': async ({ database }) => {
    for (const [what, [statements, found]] of Object.entries(tampering)) {
      await tamper(database, 'truncate audit, audit_seals restart identity')
      await sealedRows(database, 20)
      await tamper(database, ...statements)
      const verdict = await verified(database)
      const first = new Set(places(verdict))
      for (const place of found) assert.ok(first.has(place), `${what}: ${[...first].join(', ')}`)
      if (!what.includes('seal')) assert.deepEqual(places(verdict).sort(), [...found].sort(), what)
      assert.equal(verdict.ok, found.length === 0, what)
    }
  },

  'a truncated or rewritten end of the chain is reported when an earlier head is given': async ({ database }) => {
    await tamper(database, 'truncate audit, audit_seals restart identity')
    await sealedRows(database, 20)
    const { head } = await verified(database)
    assert.equal((await verified(database, { head })).ok, true)
    await tamper(database, 'delete from audit_seals where n = 4', 'delete from audit where seq > 15')
    assert.equal((await verified(database)).ok, true, 'undetectable without an earlier head')
    assert.deepEqual(places(await verified(database, { head })), ['head - in 4'])
    await sealedRows(database, 5)
    assert.equal((await verified(database)).ok, true)
    assert.deepEqual(places(await verified(database, { head })), ['head - in 4'])
    for (const wrong of ['', '4', `4:${'x'.repeat(64)}`, `-1:${'0'.repeat(64)}`, `${head} `]) {
      await assert.rejects(verified(database, { head: wrong }), { code: 'INPUT_INVALID' })
    }
  },

  'a seal cannot be forged with access to the database but without the key': async ({ database }) => {
    await tamper(database, 'truncate audit, audit_seals restart identity')
    const [key, other] = [sealKey('the key of the service'), sealKey('a guess')]
    await sealedRows(database, 10)
    await sealedRows(database, 10, 5, key)
    assert.equal(
      (await verified(database, { keys: [other, key] })).ok,
      true,
      'seals from before the first key are valid too',
    )
    assert.deepEqual(places(await verified(database)), ['key - in 3', 'key - in 4'])
    assert.deepEqual(places(await verified(database, { keys: [other] })), ['key - in 3', 'key - in 4'])
    // An attacker who knows the algorithm but not the key reseals everything after a change.
    await tamper(database, "update audit set principal = 'mallory' where seq = 2", 'delete from audit_seals')
    await sealedRows(database, 0)
    assert.equal((await verified(database)).ok, true)
    assert.deepEqual(places(await verified(database, { keys: [key] })), ['key - in 1'])
    // With the id of the right key, and another secret.
    await tamper(database, 'delete from audit_seals')
    await sealedRows(database, 0, 5, { id: key.id, secret: 'a guess' })
    assert.deepEqual(places(await verified(database, { keys: [key] })), ['seal - in 1'])
    await sealedRows(database, 5)
    assert.ok(
      places(await verified(database, { keys: [key] })).includes('seal - in 2'),
      'the chain does not continue without a key',
    )
  },

  'verification accepts what retention removed, and reports anything else that is missing': async ({ database }) => {
    const prepare = async (): Promise<void> => {
      await tamper(database, 'truncate audit, audit_seals restart identity')
      await sealedRows(database, 20)
      await tamper(database, "update audit set at = now() - interval '3 days' where seq <= 10")
      await database.query('select retire_audit($1, 10)', [2 * 86_400_000])
      await createSealer({ database }).seal()
    }
    await prepare()
    const { ok, rows, seals, retired, head } = await verified(database)
    assert.deepEqual([ok, rows, seals, retired?.seal, retired?.uptoSeq], [true, 11, 3, 2, 10])
    assert.equal((await verified(database, { head })).ok, true)
    const tried: [string[], string[]][] = [
      [['delete from audit_seals where n = 3', 'delete from audit where seq between 11 and 15'], ['seal - in 1']],
      [
        ["update audit set details = replace(details, '10', '15') where tool = 'audit.retire'"],
        ['changed 21 in 5', 'seal - in 1'],
      ],
      [
        [
          "insert into audit (seq, tenant, principal, call_id, fence, phase, tool) overriding system value values (3, '', '', '', 0, '', '')",
        ],
        ['inserted - in 3'],
      ],
      [['delete from audit where seq = 21'], ['missing 21 in 5', 'seal - in 1']],
    ]
    for (const [statements, found] of tried) {
      await prepare()
      await tamper(database, ...statements)
      assert.deepEqual(places(await verified(database)).sort(), found.sort(), statements.join())
    }
  },

  'the service role can add and seal entries, but not change or remove them': async ({ database }) => {
    await tamper(database, 'truncate audit, audit_seals restart identity')
    const service = database.asService()
    await sealedRows(service, 10)
    assert.equal((await verified(service)).ok, true)
    for (const statement of [
      "update audit set tool = 'x'",
      'delete from audit',
      'truncate audit',
      "update audit_seals set hash = 'x'",
      'delete from audit_seals',
      'truncate audit_seals',
      'alter table audit disable trigger all',
    ]) {
      const error = (await service.query(statement).catch((thrown: unknown) => thrown)) as ToolError
      assert.deepEqual([statement, error.details?.sqlstate], [statement, '42501'])
    }
    await assert.rejects(
      service.transaction(async (queries) => {
        await queries.query("select set_config('gantry.retiring', 'on', true)")
        await queries.query('delete from audit')
      }),
      { code: 'INTERNAL' },
    )
    const { ok, rows } = await verified(service)
    assert.deepEqual([ok, rows], [true, 10])
  },

  'retire_audit removes no entry younger than a day, and never the newest seal': async ({ database }) => {
    await sealedRows(database, 10)
    const service = database.asService()
    const retire = async (ms: number): Promise<unknown> =>
      (await service.query<{ rows: number }>('select retire_audit($1, 10) as rows', [ms]))[0]?.rows
    for (const ms of [0, -1e12, 1]) assert.equal(await retire(ms), 0)
    await tamper(database, "update audit set at = now() - interval '2 days'")
    assert.deepEqual([await retire(0), await retire(0)], [5, 0])
    assert.equal((await database.query('select n from audit_seals')).length, 1)
  },

  'an export verifies to the same verdict as the database, and changes of it are reported': async ({ database }, t) => {
    await tamper(database, 'truncate audit, audit_seals restart identity')
    await sealedRows(database, 12)
    await addRows(database, 'audit', [someRow({ details: 'not sealed \u009b yet\u2028' })])
    const folder = await mkdtemp(join(tmpdir(), 'gantry-audit-'))
    t.after(() => rm(folder, { recursive: true }))
    const file = join(folder, 'audit.jsonl')
    const check = async (lines: readonly string[]): Promise<AuditVerdict> => {
      await writeFile(file, lines.join(''))
      return verifyAudit(readAuditFile(file, signal))
    }
    const control = createAuditControl(database, { sealer: createSealer({ database }), keys: [] })
    const owner = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
    const lines: string[] = []
    for await (const line of control.export({ tenant: '*' }, owner, signal)) lines.push(line)
    assert.deepEqual(await check(lines), await verified(database))
    assert.doesNotMatch(lines.join(''), /[\u009b\u2028]/)
    const swap = (list: string[], a: number, b: number): string[] => list.with(a, list[b] ?? '').with(b, list[a] ?? '')
    assert.deepEqual(places(await check(lines.toSpliced(3, 1))), ['missing 3 in 1'])
    assert.deepEqual(places(await check(lines.toSpliced(3, 0, lines[2] ?? ''))), ['order 2 in -'])
    assert.deepEqual(places(await check(swap(lines, 2, 3))), ['order 2 in -', 'missing 2 in 1'])
    assert.deepEqual(places(await check(lines.with(2, (lines[2] ?? '').replace('alice', 'alicf')))), ['changed 2 in 1'])
    assert.ok(places(await check(swap(lines, 0, 6))).length > 0)
    const third = lines[2] ?? ''
    const wrong = [
      '{"kind":"row"}\n',
      third.replace('"fence":1', '"fence":4294967297'),
      third.replace('alice', 'ali\\ud800'),
    ]
    for (const line of wrong) {
      assert.notEqual(line, third)
      await assert.rejects(check(lines.with(2, line)), { code: 'INPUT_INVALID', message: /^Line 3 / })
    }
  },
})

const dumping = { skip: !hasProgram('pg_dump') && 'pg_dump is not installed' }
test('a dumped and restored database verifies and can be sealed further', dumping, async (t) => {
  const [from, to] = [await postgresDatabase(t), await postgresDatabase(t)]
  await sealedRows(from.database, 12)
  await addRows(from.database, 'audit', [someRow()])
  await to.database.query('drop schema gantry cascade')
  const env = { ...process.env, PATH: searchPath() }
  const dump = spawnSync('pg_dump', [from.url], { env, encoding: 'utf8', maxBuffer: 1e8 })
  assert.equal(dump.status, 0, dump.stderr)
  const input = dump.stdout
  const restored = spawnSync('psql', ['-v', 'ON_ERROR_STOP=1', '-q', to.url], { env, input, encoding: 'utf8' })
  assert.equal(restored.status, 0, restored.stderr)
  const { head } = await verified(from.database)
  assert.equal((await verified(to.database, { head })).ok, true)
  await sealedRows(to.database, 5)
  const { ok, rows, unsealed } = await verified(to.database, { head })
  assert.deepEqual([ok, rows, unsealed], [true, 18, 0])
  await tamper(to.database, "update audit set tool = 'x' where call_id = 'c3'")
  assert.deepEqual(
    (await verified(to.database)).findings.map(({ what }) => what),
    ['changed', 'changed'],
  )
})
