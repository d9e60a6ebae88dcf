import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { MatrixCase } from '../packages/conformance/src/runtime-case.ts'
import { hostRuntimes, runtimesPage } from './docs/runtimes-page.ts'
import { buildEngines } from './engines/built.ts'
import { sharedMemory } from './engines/folder.ts'
import { installPrograms } from './engines/packages.ts'
import { sharedPostgres } from './engines/postgres.ts'
import { engineTable, missingEngines } from './engines/table.ts'
import { runCampaigns } from './run-campaigns.ts'
import { bundleCommand, fleetTests, groupTests } from './test-groups.ts'

/**
 * Runs the test files with `node --test`, all but those of fleets and engines, then prints which engines were used and which are missing.
 * Installs missing Debian packages if it has the rights; with GANTRY_ENGINES=required, as in CI, it fails when an
 * engine is still missing.
 */
const root = dirname(import.meta.dirname)
const required = process.env.GANTRY_ENGINES === 'required'
const asked = process.argv.slice(2)
const patterns = asked.length > 0 ? asked : ['packages/*/{src,test}/**/*.test.ts', 'test/**/*.test.ts']
/** Tests that start whole services take longest; they start first, so that none of them runs alone at the end. */
const isLong = (file: string): boolean => /^(?:test|packages\/service\/test)\//.test(file)
/** They need container engines, which `npm run test:engines` starts. */
const ofEngines = 'packages/*/test/engines/**'
/** They need the packages as they are published, which `npm run test:install` builds and installs. */
const ofInstall = 'test/install/**'
const leftOut = asked.length > 0 ? [ofEngines, ofInstall] : [ofEngines, ofInstall, ...fleetTests]
const found = patterns.flatMap((pattern) => globSync(pattern, { cwd: root, exclude: leftOut })).sort()
const files = [...found.filter(isLong), ...found.filter((file) => !isLong(file))]
if (files.length === 0) {
  console.error(`No test file matches ${patterns.join(' ')}.`)
  process.exit(2)
}
installPrograms()
const built = await buildEngines()
// Otherwise each `gantry` process loads its modules one by one, until one of them ends and makes the bundle.
if (asked.length === 0) await bundleCommand(root)
/** Timeout of one test file, so that a hanging test does not hang the run; a group of files counts as one. */
const longestMs = 600_000
const notes = mkdtempSync(join(tmpdir(), 'gantry-tests-'))
const memory = sharedMemory()
Object.assign(process.env, memory.env)
const postgres = await sharedPostgres()
const env = { ...process.env, ...postgres.env, GANTRY_MATRIX: join(notes, 'cases') }
/** A file that is named on the command line runs in its own process, as in an editor. */
const run = asked.length > 0 ? files : groupTests(root, files, notes)
// Two lanes use two processors up, because the engines and services of the tests are processes of their own.
const atOnce = Math.max(2, availableParallelism())
const whole = asked.length === 0
const end = await runCampaigns({ root, modules: run, atOnce, repeats: whole, env, folder: notes, longestMs })
await postgres.stop()
memory.remove()
const missing = missingEngines(root, built)
// Repeated files would have their cases twice.
if (end === 'passed' && whole && missing.length === 0) writeMatrix()
rmSync(notes, { recursive: true })
console.log(engineTable(root, built))
const fails = required && missing.length > 0
if (fails) console.error(`\nGANTRY_ENGINES=required, but these are missing: ${missing.join(', ')}.`)
process.exitCode = end === 'failed' || fails ? 1 : 0

/** Stores the outcome of each case of each runtime, if all of them ran. */
function writeMatrix(): void {
  const lines = readFileSync(env.GANTRY_MATRIX, 'utf8').split('\n').filter(Boolean)
  writeFileSync(
    join(root, 'docs/runtimes.md'),
    runtimesPage(
      hostRuntimes,
      lines.map((line) => JSON.parse(line) as MatrixCase),
    ),
  )
}
