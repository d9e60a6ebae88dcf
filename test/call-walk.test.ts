import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { runChild } from '../scripts/child.ts'

const root = dirname(import.meta.dirname)

interface Table {
  readonly most: number
  readonly rows: ReadonlyMap<string, string>
}

/** The section "One HTTP call" of ARCHITECTURE.md. */
function readTable(): Table {
  const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
  const section = /\n## One HTTP call\n(.*?)\n## /s.exec(page)?.[1] ?? ''
  const rows = [...section.matchAll(/^\| `([^`]+)` \| (.*) \|$/gm)].map(
    ([, file = '', does = '']) => [file, does] as const,
  )
  return { most: Number(/at most (\d+)/.exec(section)?.[1]), rows: new Map(rows) }
}

/** Files that work for the call outside its async context, such as batches, and are not seen in every run. */
const tolerated = 3

test('ARCHITECTURE.md lists the files that one HTTP call passes, and none is in the composition root', async () => {
  const { most, rows } = readTable()
  const { code, stdout, stderr } = await runChild(process.execPath, ['scripts/call-walk.ts', '--json'], {
    cwd: root,
    timeoutMs: 240_000,
  })
  assert.equal(code, 0, stderr)
  const files: readonly string[] = JSON.parse(stdout)
  const unlisted = files.filter((file) => !rows.has(file))
  const unentered = [...rows.keys()].filter((file) => !files.includes(file))
  const differences = `unlisted: ${unlisted.join(', ')}; not entered: ${unentered.join(', ')}; run npm run walk -- --write`
  assert.ok(unlisted.length <= tolerated && unentered.length <= tolerated, differences)
  assert.deepEqual(
    [...rows].filter(([, does]) => does === '…').map(([file]) => file),
    [],
    'say what these files do',
  )
  assert.ok(rows.size <= most, `${rows.size} files, at most ${most}`)
  assert.deepEqual(
    files.filter((file) => file.startsWith('packages/service/src/serve/')),
    [],
  )
})
