import { existsSync, globSync, readFileSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { differences, runChild } from './child.ts'

/** Runs each example in its own process and compares its output with its expected.txt; `--write` updates the file. */
const root = dirname(import.meta.dirname)
const write = process.argv.includes('--write')
const asked = process.argv.slice(2).filter((argument) => !argument.startsWith('--'))
const folders = globSync('examples/*/main.ts', { cwd: root })
  .map((file) => dirname(file))
  .filter((folder) => asked.length === 0 || asked.includes(basename(folder)))
  .sort()

const failures = await Promise.all(folders.map(check))
const failed = failures.filter(Boolean).length
console.log(`${folders.length - failed} of ${folders.length} examples print what they should.`)
process.exitCode = failed === 0 && folders.length > 0 ? 0 : 1

/** Runs one example; true when it failed. */
async function check(folder: string): Promise<boolean> {
  const file = join(root, folder, 'expected.txt')
  const how = { cwd: root, timeoutMs: 180_000 }
  const { code, stdout, stderr } = await runChild(process.execPath, [join(root, folder, 'main.ts')], how)
  if (write && code === 0) writeFileSync(file, stdout)
  const expected = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const lines = differences(expected, stdout)
  if (code === 0 && stderr === '' && lines.length === 0) {
    console.log(`ok      ${folder}`)
    return false
  }
  const end = code === undefined ? 'was killed' : `ended with exit code ${code}`
  console.log([`FAILED  ${folder} ${end}`, ...lines, stderr].join('\n'))
  return true
}
