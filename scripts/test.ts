import { spawn } from 'node:child_process'
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { MatrixCase } from '../packages/conformance/src/matrix.ts'
import { runtimesPage } from './docs/runtimes-page.ts'
import { buildEngines } from './engines/built.ts'
import { sharedMemory } from './engines/folder.ts'
import { installPrograms } from './engines/packages.ts'
import { sharedPostgres } from './engines/postgres.ts'
import { engineTable, missingEngines } from './engines/table.ts'

/**
 * Runs every test file with `node --test`, then says which engines were used and which are missing.
 * Debian programs that are missing are installed where we may; with GANTRY_ENGINES=required, as in CI, it fails when an
 * engine is missing all the same.
 */
const root = dirname(import.meta.dirname)
const required = process.env.GANTRY_ENGINES === 'required'
const asked = process.argv.slice(2)
const patterns = asked.length > 0 ? asked : ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts']
/** Those that start whole services take longest, and begin first, so that none of them is left over at the end. */
const isLong = (file: string): boolean => /^(?:test|packages\/service\/test)\//.test(file)
const found = patterns.flatMap((pattern) => globSync(pattern, { cwd: root })).sort()
const files = [...found.filter(isLong), ...found.filter((file) => !isLong(file))]
if (files.length === 0) {
  console.error(`No test file matches ${patterns.join(' ')}.`)
  process.exit(2)
}
installPrograms()
const built = await buildEngines()
const setup = join(import.meta.dirname, 'property-setup.ts')
/** A test that hangs must not hang the run. */
const longestTestMs = 300_000
const flags = [
  '--import',
  setup,
  '--test',
  // One more than there are processors, because many tests mostly wait.
  `--test-concurrency=${availableParallelism() + 1}`,
  `--test-timeout=${longestTestMs}`,
  '--test-reporter=spec',
]
const notes = mkdtempSync(join(tmpdir(), 'gantry-matrix-'))
const memory = sharedMemory()
Object.assign(process.env, memory.env)
const postgres = await sharedPostgres()
const env = { ...process.env, ...postgres.env, GANTRY_MATRIX: join(notes, 'cases') }
const child = spawn(process.execPath, [...flags, ...files], { cwd: root, stdio: 'inherit', env })
child.on('exit', async (code) => {
  await postgres.stop()
  memory.remove()
  const whole = asked.length === 0 && missingEngines(root, built).length === 0
  if (code === 0 && whole) writeMatrix()
  rmSync(notes, { recursive: true })
  console.log(engineTable(root, built))
  const missing = required ? missingEngines(root, built) : []
  if (missing.length > 0) console.error(`\nGANTRY_ENGINES=required, but these are missing: ${missing.join(', ')}.`)
  process.exitCode = missing.length > 0 ? 1 : (code ?? 1)
})

/** Keeps how each case of each runtime ended, when all of them ran. */
function writeMatrix(): void {
  const lines = readFileSync(env.GANTRY_MATRIX, 'utf8').split('\n').filter(Boolean)
  writeFileSync(join(root, 'docs/runtimes.md'), runtimesPage(lines.map((line) => JSON.parse(line) as MatrixCase)))
}
