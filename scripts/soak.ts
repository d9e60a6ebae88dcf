import { spawn } from 'node:child_process'
import { globSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { buildEngines } from './engines/built.ts'
import { installPrograms } from './engines/packages.ts'
import { sharedPostgres } from './engines/postgres.ts'

/** The long campaigns: every property test with many more cases from a fresh seed, and the tests in test/soak. */
const root = dirname(import.meta.dirname)
const properties = globSync('packages/*/{src,test}/**/*.test.ts', { cwd: root })
  .filter((file) => readFileSync(join(root, file), 'utf8').includes("from 'fast-check'"))
  .sort()
/** These take longest and begin first, so that none of them is left over at the end. */
const longest = ['schedules', 'kill-storm', 'program-storm', 'broker-storm'].map((name) => `test/soak/${name}.soak.ts`)
const others = globSync('test/soak/*.soak.ts', { cwd: root }).filter((file) => !longest.includes(file))
const campaigns = [...longest, ...others.sort()]
const seed = process.env.GANTRY_SOAK_SEED ?? String(Date.now() % 2_147_483_647)
console.log(`Soak with seed ${seed}; repeat it with GANTRY_SOAK_SEED=${seed} npm run test:soak`)

installPrograms()
await buildEngines()
const postgres = await sharedPostgres()
const setup = join(import.meta.dirname, 'property-setup.ts')
/** A test that hangs must not hang the run. */
const longestTestMs = 1_500_000
const flags = [
  '--expose-gc',
  '--import',
  setup,
  '--test',
  // A third lane was tried on two processors: it makes each storm longer, and the whole no shorter.
  '--test-concurrency=2',
  `--test-timeout=${longestTestMs}`,
  '--test-reporter=spec',
]
const child = spawn(process.execPath, [...flags, '--test-reporter-destination=stdout', ...campaigns, ...properties], {
  cwd: root,
  stdio: 'inherit',
  env: { ...process.env, ...postgres.env, GANTRY_SOAK_SEED: seed },
})
child.on('exit', async (code) => {
  await postgres.stop()
  console.log(
    `\nSoak over ${properties.length} property files and ${campaigns.length} campaigns ended with code ${code}.`,
  )
  process.exitCode = code ?? 1
})
