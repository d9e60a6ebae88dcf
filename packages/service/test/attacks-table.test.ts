import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'

const root = join(import.meta.dirname, '../../..')
const page = readFileSync(join(root, 'docs/security-tests.md'), 'utf8')
const rows = page.split('\n').filter((line) => /^\| \d+ /.test(line))

test('the table names every attack on the service once', () => {
  const numbers = rows.map((row) => Number(/^\| (\d+) /.exec(row)?.[1]))
  const range = (from: number, to: number): number[] => Array.from({ length: to - from + 1 }, (_, n) => from + n)
  assert.deepEqual(numbers, [...range(75, 81), ...range(107, 126)])
})

test('every test and every file that the table names exists', () => {
  const tests = globSync('packages/*/{src,test}/**/*.test.ts', { cwd: root }).map((file) =>
    readFileSync(join(root, file), 'utf8'),
  )
  for (const row of rows) {
    for (const [, name = ''] of row.matchAll(/“([^”]+)”/g)) {
      const start = name.replace(/ ?….*$/, '')
      assert.ok(
        tests.some((text) => ["'", '`', ': '].some((before) => text.includes(`${before}${start}`))),
        `${start} of ${row.slice(0, 40)}`,
      )
    }
    for (const [, file = ''] of row.matchAll(/`((?:src|test|packages)\/[\w/.-]+\.test\.ts)`/g))
      assert.ok(existsSync(join(root, file)), file)
  }
})
