import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { AuditVerdict } from '@gantry/contract'
import { pgliteDatabase } from '../../../test/databases.fixture.ts'
import { addRows } from '../calls.fixture.ts'
import { places, sealedRows, someRow } from './audit.fixture.ts'
import { createAuditControl } from './audit-control.ts'
import { readAuditFile } from './audit-file.ts'
import { createSealer } from './sealer.ts'
import { verifyAudit } from './verify.ts'

const { signal } = new AbortController()

/** Exports entries 1 to 12 under three seals and entry 13 unsealed; `check` verifies changed lines. */
async function exported(t: TestContext) {
  const database = await pgliteDatabase(t)
  await sealedRows(database, 12)
  await addRows(database, 'audit', [someRow({ details: 'not sealed \u009b yet\u2028' })])
  const folder = await mkdtemp(join(tmpdir(), 'gantry-audit-'))
  t.after(() => rm(folder, { recursive: true }))
  const control = createAuditControl(database, { sealer: createSealer({ database }), keys: [] })
  const lines: string[] = []
  const owner = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
  for await (const line of control.export({ tenant: '*' }, owner, signal)) lines.push(line)
  const file = join(folder, 'audit.jsonl')
  const check = async (given: readonly string[]): Promise<AuditVerdict> => {
    await writeFile(file, given.join(''))
    return verifyAudit(readAuditFile(file, signal))
  }
  return { lines, check }
}

/** Edits that add to a line, or change its bytes but not its meaning. */
const edits: { readonly [what: string]: (line: string) => string } = {
  'a repeated member': (line) => line.replace('"kind":', '"kind":"zz","kind":'),
  'another repeated member': (line) => line.replace(/"(tenant|hash)":/, '"$1":"zz","$1":'),
  'a member repeated with an escape in its name': (line) => line.replace('{', '{"\\u006bind":"zz",'),
  'an unknown member': (line) => line.replace('}\n', ',"note":"zz"}\n'),
  'the internal mark of an odd line': (line) => line.replace('}\n', ',"oddLine":null}\n'),
  'a prototype': (line) => line.replace('{', '{"__proto__":{},'),
  'a prototype with members': (line) => line.replace('{', '{"__proto__":{"details":"zz"},'),
  'a space': (line) => line.replace(',', ', '),
  'an escape': (line) => line.replace('"kind"', '"\\u006bind"'),
  'a number in another form': (line) => line.replace(/"(seq|n)":(\d+)/, '"$1":$2.0'),
  'members in another order': (line) => line.replace(/^\{("kind":"\w+"),(.*)\}/, '{$2,$1}'),
}

test('verifyAudit reports a line that differs in any byte from what an export writes, with its position', async (t) => {
  const { lines, check } = await exported(t)
  assert.equal((await check(lines)).ok, true)
  const at = (index: number): string => lines[index] ?? ''
  for (const [what, edit] of Object.entries(edits)) {
    for (const [index, place] of [
      [0, 'seal - in 1'],
      [2, 'changed 2 in -'],
      [lines.length - 1, 'changed 13 in -'],
    ] as const) {
      assert.notEqual(edit(at(index)), at(index), what)
      const verdict = await check(lines.with(index, edit(at(index))))
      assert.deepEqual([verdict.ok, places(verdict)], [false, [place]], what)
      assert.match(verdict.findings[0]?.message ?? '', new RegExp(`^Line ${index + 1} is not what an export writes `))
    }
  }
})

test('verifyAudit reports a missing seal of a file with the number of entries it covered', async (t) => {
  const { lines, check } = await exported(t)
  for (const [seal, words] of [
    [0, 'Seal 1 is missing; no seal covers the 5 rows up to 5.'],
    [6, 'Seal 2 is missing; no seal covers the 5 rows up to 10.'],
  ] as const) {
    const { findings, unsealed } = await check(lines.toSpliced(seal, 1))
    assert.deepEqual([findings.map(({ message }) => message), unsealed], [[words], 1])
  }
})

test('verifyAudit reports an unsealed entry before a seal, and does not count it as waiting for a seal', async (t) => {
  const { lines, check } = await exported(t)
  const row = (seq: number): string => (lines[1] ?? '').replace('"seq":1,', `"seq":${seq},`)
  const { ok, findings } = await check([row(0), ...lines])
  assert.deepEqual([ok, findings[0]?.message], [false, '1 rows under no seal stand before seal 1.'])
})
