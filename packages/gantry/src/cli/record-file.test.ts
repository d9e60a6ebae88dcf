import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { openRecordFile } from './commands/runtime.ts'

function folderOf(t: TestContext): string {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-record-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

const linesOf = (file: string): readonly string[] => {
  try {
    return readFileSync(file, 'utf8').split('\n').slice(0, -1)
  } catch {
    return []
  }
}

test('a record file goes on where it ended, and a full one is kept beside it until the next is full', async (t) => {
  const file = join(folderOf(t), 'data', 'record.jsonl')
  const written = Array.from({ length: 10 }, (_, index) => `line ${index}`)
  for (const half of [written.slice(0, 5), written.slice(5)]) {
    const record = await openRecordFile(file, 28)
    for (const line of half) {
      record.write(`${line}\n`)
      while (linesOf(file).at(-1) !== line) await delay(1)
    }
    record.end()
  }
  assert.deepEqual([linesOf(`${file}.1`), linesOf(file)], [written.slice(4, 8), written.slice(8)])
  for (const path of [file, `${file}.1`]) assert.equal(statSync(path).mode & 0o777, 0o600)
})

test('lines that are written at once arrive whole and in order when the file becomes full among them', async (t) => {
  const file = join(folderOf(t), 'record.jsonl')
  writeFileSync(file, 'before\n', { mode: 0o644 })
  const record = await openRecordFile(file, 30)
  for (const line of ['one', 'two', 'three', 'four', 'five', 'six']) record.write(`${line}\n`)
  record.end()
  while (linesOf(file).at(-1) !== 'six' || linesOf(`${file}.1`).at(-1) !== 'four') await delay(1)
  assert.deepEqual(
    [linesOf(`${file}.1`), linesOf(file)],
    [
      ['before', 'one', 'two', 'three', 'four'],
      ['five', 'six'],
    ],
  )
  assert.equal(statSync(file).mode & 0o777, 0o600)
})
