import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { median } from './measure.ts'
import { progress } from './progress.ts'
import { figure, ratio, type Section } from './report.ts'

const root = join(import.meta.dirname, '..')
const program = join(root, 'packages', 'gantry', 'bin', 'gantry.mjs')
/** Caches stay inside the checkout, and no configuration is found from here. */
const folder = join(root, 'node_modules', '.cache', 'gantry-bench', 'cli')
const runs = 20

/** How long a command takes from its start to its end, beside Node with nothing to do. */
export async function cliStart(): Promise<Section> {
  mkdirSync(folder, { recursive: true })
  const empty = join(folder, 'empty.js')
  writeFileSync(empty, '')
  const command = [program, 'run', 'demo:add', '{"a":5,"b":3}', '--json']
  const fault = existsSync(program) ? probe(command) : 'it does not exist yet'
  const bare: number[] = []
  const ours: number[] = []
  // The first runs fill the command's caches, as a user's first runs do.
  for (let n = 0; n < 3 && fault === undefined; n += 1) time(command)
  for (let n = 0; n < runs; n += 1) {
    if (n % 5 === 0) progress(`cli-start: run ${n + 1} of ${runs}`)
    bare.push(time([empty]))
    if (fault === undefined) ours.push(time(command))
  }
  const cells = (times: readonly number[]): string[] => [
    figure(median(times)),
    figure(Math.min(...times)),
    ratio(median(times), median(bare)),
  ]
  const label = "`gantry run demo:add '{…}' --json`"
  const rows = [
    ['`node empty.js`', ...cells(bare), ''],
    fault === undefined ? [label, ...cells(ours), '≤ 2×'] : [`${label}: not measured, ${fault}`],
  ]
  const head = ['one start', 'median ms', 'best ms', 'to bare node', 'target']
  return { title: 'Start of the command', tables: [{ head, rows }], notes }
}

/** Runs Node without the options and the compile cache of this process. */
function start(args: readonly string[]): { readonly status: number | null; readonly stdout: string } {
  const { NODE_COMPILE_CACHE: _cache, NODE_OPTIONS: _options, ...rest } = process.env
  const env = { ...rest, XDG_CACHE_HOME: folder }
  return spawnSync(process.execPath, args, { cwd: folder, env, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })
}

/** Why the command cannot be measured, if it cannot. */
function probe(command: readonly string[]): string | undefined {
  const { status, stdout } = start(command)
  if (status !== 0) return `it ended with exit code ${status}`
  return /"result":\s*8/.test(stdout) ? undefined : 'it printed another result'
}

function time(args: readonly string[]): number {
  const started = performance.now()
  start(args)
  return performance.now() - started
}

const notes = [
  `Median of ${runs} starts each, by turns, from spawn to exit; the caches that the command keeps for itself are warm.`,
]
