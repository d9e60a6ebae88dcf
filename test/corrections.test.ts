import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'

const root = dirname(import.meta.dirname)

test('every test that the table of corrections names exists', () => {
  const page = readFileSync(join(root, 'docs/corrections.md'), 'utf8')
  const rows = page.split('\n').filter((line) => /^\| [ABCD]\d/.test(line))
  assert.ok(rows.length > 50)
  for (const row of rows) {
    let text: string | undefined
    for (const [, file, name] of row.split(' | ')[1]?.matchAll(/`((?:packages|test)\/[^`]+\.ts)`|"([^"]*)"/g) ?? []) {
      if (file !== undefined) {
        assert.ok(existsSync(join(root, file)), `${file} of ${row}`)
        text = readFileSync(join(root, file), 'utf8')
      } else assert.ok(name !== undefined && name.length > 10 && text?.includes(name), `"${name}" of ${row}`)
    }
    assert.ok(text !== undefined || row.startsWith('| D7'), row)
  }
})

for (const page of ['SECURITY.md', 'docs/security-tests.md']) {
  test(`every path that ${page} names exists`, () => {
    const text = readFileSync(join(root, page), 'utf8')
    const named = [...text.matchAll(/`((?:packages|test|docs|scripts)\/[^`*]+)`/g)]
    assert.ok(named.length > 15)
    for (const [, path = ''] of named) assert.ok(existsSync(join(root, path)), path)
  })
}
