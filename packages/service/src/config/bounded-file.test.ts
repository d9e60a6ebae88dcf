import assert from 'node:assert/strict'
import { existsSync, readFileSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { readBoundedFile } from './bounded-file.ts'
import { folderWith } from './config.fixture.ts'

test('a file is read whole up to the limit, which counts bytes', () => {
  using folder = folderWith({ a: 'grüße', empty: '' })
  const path = join(folder.path, 'a')
  assert.deepEqual(readBoundedFile(path, 7), { state: 'read', text: 'grüße' })
  assert.deepEqual(readBoundedFile(path, 6), { state: 'too-long' })
  assert.deepEqual(readBoundedFile(join(folder.path, 'empty'), 6), { state: 'read', text: '' })
  assert.throws(() => readBoundedFile(join(folder.path, 'missing'), 6), { code: 'ENOENT' })
})

test('a file far over the limit is refused by its size', () => {
  using folder = folderWith({ sparse: '' })
  const path = join(folder.path, 'sparse')
  truncateSync(path, 3_000_000_000)
  assert.deepEqual(readBoundedFile(path, 1_000), { state: 'too-long' })
})

test('what is not a regular file is refused unread', () => {
  using folder = folderWith({})
  assert.deepEqual(readBoundedFile(folder.path, 1_000), { state: 'not-a-file' })
  if (existsSync('/dev/zero')) assert.deepEqual(readBoundedFile('/dev/zero', 1_000), { state: 'not-a-file' })
})

const proc = { skip: !existsSync('/proc/version') && 'there is no /proc here' }
test('a file that hides its size is read all the same, and no further than the limit', proc, () => {
  const text = readFileSync('/proc/version', 'utf8')
  assert.deepEqual(readBoundedFile('/proc/version', 100_000), { state: 'read', text })
  assert.deepEqual(readBoundedFile('/proc/version', 5), { state: 'too-long' })
})
