import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { buildEngines } from './engines/built.ts'
import { installPrograms } from './engines/packages.ts'
import { sharedPostgres } from './engines/postgres.ts'
import { runCampaigns } from './run-campaigns.ts'
import { bundleCommand, fleetTests, inOrder } from './test-groups.ts'

/**
 * The long campaigns: every property test with many more cases from a fresh seed, the tests of fleets, and the tests in
 * test/soak. With GANTRY_SOAK_SHARE, as in CI, property tests, schedules and storms have only this share of their cases.
 */
const root = dirname(import.meta.dirname)
const properties = globSync('packages/*/{src,test}/**/*.test.ts', { cwd: root })
  .filter((file) => readFileSync(join(root, file), 'utf8').includes("from 'fast-check'"))
  .filter((file) => !fleetTests.includes(file))
  .sort()
/** These take longest and start first, so that none of them runs alone at the end. */
const longest = ['schedules', 'kill-storm', 'program-storm', 'broker-storm'].map((name) => `test/soak/${name}.soak.ts`)
const others = globSync('test/soak/*.soak.ts', { cwd: root }).filter((file) => !longest.includes(file))
const campaigns = [...longest, ...others.sort()]
const seed = process.env.GANTRY_SOAK_SEED ?? String(Date.now() % 2_147_483_647)
console.log(`Soak with seed ${seed}; repeat it with GANTRY_SOAK_SEED=${seed} npm run test:soak`)

installPrograms()
await buildEngines()
await bundleCommand(root)
const postgres = await sharedPostgres()
const folder = mkdtempSync(join(tmpdir(), 'gantry-soak-'))
const files = [...campaigns, ...fleetTests, ...properties].map((file) => [file])
const end = await runCampaigns({
  root,
  modules: inOrder(root, files, folder),
  env: { ...process.env, ...postgres.env, GANTRY_SOAK_SEED: seed },
  folder,
  longestMs: 1_500_000,
  flags: ['--expose-gc'],
}).finally(() => postgres.stop())
rmSync(folder, { recursive: true })
const parts = `${properties.length} property files, ${fleetTests.length} of fleets and ${campaigns.length} campaigns`
console.log(`\nSoak over ${parts}: ${end}.`)
process.exitCode = end === 'failed' ? 1 : 0
