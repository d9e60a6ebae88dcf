import assert from 'node:assert/strict'
import { existsSync, readFileSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readBoundedFile } from './bounded-file.ts'
import { folderWith } from './config.fixture.ts'

test('readBoundedFile reads a file of up to the limit, counted in bytes', () => {
  using folder = folderWith({ a: 'grüße', empty: '' })
  const path = join(folder.path, 'a')
  assert.deepEqual(readBoundedFile(path, 7), { state: 'read', text: 'grüße' })
  assert.deepEqual(readBoundedFile(path, 6), { state: 'too-long' })
  assert.deepEqual(readBoundedFile(join(folder.path, 'empty'), 6), { state: 'read', text: '' })
  assert.throws(() => readBoundedFile(join(folder.path, 'missing'), 6), { code: 'ENOENT' })
})

test('readBoundedFile refuses a file over the limit by its size', () => {
  using folder = folderWith({ sparse: '' })
  const path = join(folder.path, 'sparse')
  truncateSync(path, 3_000_000_000)
  assert.deepEqual(readBoundedFile(path, 1_000), { state: 'too-long' })
})

test('readBoundedFile refuses a directory or a device without reading it', () => {
  using folder = folderWith({})
  assert.deepEqual(readBoundedFile(folder.path, 1_000), { state: 'not-a-file' })
  if (existsSync('/dev/zero')) assert.deepEqual(readBoundedFile('/dev/zero', 1_000), { state: 'not-a-file' })
})

const proc = { skip: !existsSync('/proc/version') && '/proc is not mounted' }
test('readBoundedFile reads a file whose stat size is 0 (/proc), up to the limit', proc, () => {
  const text = readFileSync('/proc/version', 'utf8')
  assert.deepEqual(readBoundedFile('/proc/version', 100_000), { state: 'read', text })
  assert.deepEqual(readBoundedFile('/proc/version', 5), { state: 'too-long' })
})
