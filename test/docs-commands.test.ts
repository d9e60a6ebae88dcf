import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { commandFaults } from '../scripts/docs/command-lines.ts'
import { readPage } from '../scripts/docs/page.ts'

/** What the check of commands says of a page. */
function faultsIn(page: string): readonly string[] {
  const root = mkdtempSync(join(tmpdir(), 'docs-commands-'))
  try {
    writeFileSync(join(root, 'page.md'), page)
    return commandFaults([readPage(root, 'page.md')])
  } finally {
    rmSync(root, { recursive: true })
  }
}

const fence = (...lines: readonly string[]) => ['```sh no-run', ...lines, '```'].join('\n')

test('a command and its options that exist are no fault of a page', () => {
  const shell = fence(
    '# gantry nonsense in a comment',
    `export GANTRY_KEY=$(cat bob.key) && npx gantry run demo:add '{"a": 5, "gantry": "x --y"}' --timeout 5s | head`,
    'GANTRY_TRANSPORT=redis gantry serve --role api \\',
    '  --host 0.0.0.0; gantry call "$ID" -f > out.txt',
  )
  const prose = 'Use `gantry approvals deny <id> --reason "no"` or `gantry secrets <command>`.'
  assert.deepEqual(faultsIn(`${shell}\n\n${prose}`), [])
})

test('a command that does not exist is a fault of the page that has it', () => {
  assert.deepEqual(faultsIn(fence('gantry run demo:add', 'gantry approve ap_1')), [
    'page.md:2 has a command that does not exist: gantry approve ap_1',
  ])
  assert.deepEqual(faultsIn('Say `gantry dlq retry <id>` to it.'), [
    'page.md:1 has a command that does not exist: gantry dlq retry',
  ])
})

test('an option that the command does not have is a fault of the page that has it', () => {
  assert.deepEqual(faultsIn(fence('gantry keys create team --role x --tools "demo:*"')), [
    'page.md:2 has an option that gantry keys create does not have: --role',
  ])
  assert.deepEqual(faultsIn('Say `gantry run demo:add -z`.'), [
    'page.md:1 has an option that gantry run does not have: -z',
  ])
})
