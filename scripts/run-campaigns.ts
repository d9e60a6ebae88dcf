import { spawn } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { basename, join } from 'node:path'

export interface Campaigns {
  readonly root: string
  readonly modules: readonly string[]
  /** The number of modules that run at the same time; two when absent. */
  readonly atOnce?: number
  /** False when a file that fails is not repeated. */
  readonly repeats?: boolean
  readonly env: NodeJS.ProcessEnv
  /** A folder for notes of the run. */
  readonly folder: string
  /** Timeout of one module, so that a hanging test does not hang the run. */
  readonly longestMs: number
  readonly flags?: readonly string[]
}

/** How a run ended: `unsteady` when files failed beside others and passed alone. */
export type CampaignsEnd = 'passed' | 'unsteady' | 'failed'

/** More failed files than this are no accident of the load. */
const mostRepeated = 2

/**
 * Runs test files, most of which load the machine with services, engines, storms and faults of their own. When one or
 * two files fail, they run once more alone, and the run passes when they pass then: both runs are printed, and the last
 * line names the files.
 */
export async function runCampaigns(campaigns: Campaigns): Promise<CampaignsEnd> {
  const list = join(campaigns.folder, 'failed')
  if (await run(campaigns, list, campaigns.modules, campaigns.atOnce ?? 2)) return 'passed'
  const failed = existsSync(list) ? readFileSync(list, 'utf8').split('\n').filter(Boolean) : []
  rmSync(list, { force: true })
  if (campaigns.repeats === false || failed.length === 0 || failed.length > mostRepeated) return 'failed'
  const names = failed.map((file) => basename(file, '.test.mjs')).join(', ')
  console.log(`\nOnce more, alone: ${names}`)
  if (!(await run(campaigns, list, failed, 1))) return 'failed'
  console.log(`\nUnsteady: ${names} failed beside other files and passed alone; the first failure is above.`)
  return 'unsteady'
}

/** Whether all files passed. */
function run(campaigns: Campaigns, list: string, modules: readonly string[], atOnce: number): Promise<boolean> {
  const { root, env, longestMs, flags = [] } = campaigns
  const args = [
    ...flags,
    '--import',
    join(import.meta.dirname, 'property-setup.ts'),
    '--test',
    `--test-concurrency=${atOnce}`,
    `--test-timeout=${longestMs}`,
    `--test-reporter=${join(import.meta.dirname, 'test-report.ts')}`,
    '--test-reporter-destination=stdout',
  ]
  const child = spawn(process.execPath, [...args, ...modules], {
    cwd: root,
    stdio: 'inherit',
    env: { ...env, GANTRY_FAILED: list },
  })
  return new Promise((resolve) => {
    child.on('error', () => resolve(false))
    child.on('exit', (code) => resolve(code === 0))
  })
}
