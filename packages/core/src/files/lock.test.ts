import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { whileLocked } from './private-file.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-lock-'))
after(() => rmSync(folder, { recursive: true }))
const options = { signal: new AbortController().signal, code: 'CONFIG_INVALID' } as const

test('whileLocked runs one callback at a time and removes the lock afterwards, also when the callback fails', async () => {
  const file = join(folder, 'new', 'book.json')
  const order: string[] = []
  const work = (name: string) =>
    whileLocked(file, options, async () => {
      order.push(`${name} begins`)
      await new Promise((resolve) => setImmediate(resolve))
      order.push(`${name} ends`)
    })
  await Promise.all(['a', 'b', 'c'].map(work))
  for (let n = 0; n < order.length; n += 2) assert.equal(order[n]?.[0], order[n + 1]?.[0], order.join(', '))
  assert.equal(order.length, 6)
  await assert.rejects(
    whileLocked(file, options, () => Promise.reject(new Error('torn'))),
    /torn/,
  )
  assert.ok(!existsSync(`${file}.lock`))
})

test('after a bounded wait for a stale lock, the error names the lock file and its holder, and the lock is kept', async () => {
  const file = join(folder, 'left.json')
  const lock = `${file}.lock`
  writeFileSync(lock, '123 on elsewhere')
  const error = await whileLocked(file, { ...options, waitMs: 50 }, async () => assert.fail('it has no lock')).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  assert.equal(error.code, 'CONFIG_INVALID')
  assert.equal(
    error.message,
    `${file} is being written by process 123 on elsewhere; if that has ended, remove ${lock}.`,
  )
  assert.equal(readFileSync(lock, 'utf8'), '123 on elsewhere')
})
