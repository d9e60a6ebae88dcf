import { spawn } from 'node:child_process'
import { globSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { installShells } from './engines/shells.ts'
import { engineTable, missingEngines } from './engines/table.ts'

/**
 * Runs every test file with `node --test`, then says which engines were used and which are missing.
 * With GANTRY_ENGINES=required, as in CI, it installs what it can and fails when an engine is missing all the same.
 */
const root = dirname(import.meta.dirname)
const required = process.env.GANTRY_ENGINES === 'required'
const asked = process.argv.slice(2)
const patterns = asked.length > 0 ? asked : ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts']
const files = patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).sort()
if (files.length === 0) {
  console.error(`No test file matches ${patterns.join(' ')}.`)
  process.exit(2)
}
if (required) installShells()
const setup = join(import.meta.dirname, 'property-setup.ts')
const flags = ['--import', setup, '--test', '--test-concurrency=2', '--test-reporter=spec']
const child = spawn(process.execPath, [...flags, ...files], { cwd: root, stdio: 'inherit' })
child.on('exit', (code) => {
  console.log(engineTable(root))
  const missing = required ? missingEngines(root) : []
  if (missing.length > 0) console.error(`\nGANTRY_ENGINES=required, but these are missing: ${missing.join(', ')}.`)
  process.exitCode = missing.length > 0 ? 1 : (code ?? 1)
})
