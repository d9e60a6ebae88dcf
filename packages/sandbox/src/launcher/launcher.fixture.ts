import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { launcherBinary } from './binary.ts'
import {
  type CgroupPlan,
  type Launched,
  type LaunchJob,
  type LaunchPlan,
  type LaunchStep,
  type RunEnd,
  type RunOptions,
  startLauncher,
} from './launcher.ts'

/** Never aborts. */
export const calm = new AbortController().signal
export const noGroups: CgroupPlan = { folders: [], settings: [], figures: {}, watches: [] }
export const bubblewrap = '/usr/bin/bwrap'
/** Why tests in a real sandbox are skipped here; false when they run. */
export const noSandbox =
  process.platform !== 'linux' ? 'needs Linux' : existsSync(bubblewrap) ? false : `needs ${bubblewrap}`
/** Why tests that make control groups are skipped here; this machine has v1, which only root may write to. */
export const noGroupsHere =
  noSandbox !== false
    ? noSandbox
    : process.getuid?.() === 0 && existsSync('/sys/fs/cgroup/memory/tasks')
      ? false
      : 'needs root and control groups of version 1'

/** A folder that every uid can read, with the launcher in it; removed after the tests of the file. */
export const place = mkdtempSync(join(tmpdir(), 'gantry-launcher-test-'))
chmodSync(place, 0o755)
export const binary = join(place, 'gantry-sandbox')
if (process.platform === 'linux') writeFileSync(binary, (await launcherBinary()).bytes, { mode: 0o755 })
after(() => rmSync(place, { recursive: true, force: true }))

/** Counts folders and uids so that each is unique. */
const counter = { next: 1 }

/** A plan that runs the init on the host, in a workspace that is removed with it. */
export function hostPlan(changes: Partial<LaunchPlan> = {}): LaunchPlan & { readonly workspace: string } {
  const workspace = join(place, `work-${counter.next++}`)
  mkdirSync(workspace)
  const argv = [binary, 'init', '--host', workspace] as const
  return { argv, cgroups: noGroups, rlimits: { core: 0 }, folders: [workspace], ...changes, workspace }
}

/** A plan that runs the init in bubblewrap, as root under its own uid. */
export function sandboxPlan(changes: Partial<LaunchPlan> = {}, extra: readonly string[] = []): LaunchPlan {
  const uid = 64_000 + (process.pid % 1_000) + 1_000 * (counter.next++ % 500)
  const namespaces = ['--unshare-all', '--unshare-user', '--disable-userns', '--new-session', '--die-with-parent']
  const argv = [
    ...[bubblewrap, ...namespaces, '--as-pid-1', '--clearenv', '--uid', '1000', '--gid', '1000'],
    ...['--ro-bind', '/usr', '/usr', '--symlink', 'usr/bin', '/bin', '--symlink', 'usr/lib', '/lib'],
    ...[
      '--symlink',
      'usr/lib64',
      '/lib64',
      '--proc',
      '/proc',
      '--dev',
      '/dev',
      '--size',
      '33554432',
      '--tmpfs',
      '/work',
    ],
    ...['--ro-bind', binary, '/gantry/init', ...extra, '--chdir', '/work', '/gantry/init', 'init'],
  ] as unknown as readonly [string, ...string[]]
  const as = process.getuid?.() === 0 ? { uid, gid: uid } : {}
  return { argv, cgroups: noGroups, rlimits: { core: 0, nofile: 1_024 }, folders: [], ...as, ...changes }
}

/** Control groups of v1 under a parent of this test process, with limits and watches. */
export function groupsPlan(limits: { readonly memoryBytes: number; readonly pids: number }): {
  readonly plan: CgroupPlan
  readonly parents: readonly string[]
} {
  const parents = ['memory', 'pids', 'cpuacct', 'unified'].map(
    (name) => `/sys/fs/cgroup/${name}/gantry-test-${process.pid}`,
  )
  for (const parent of parents) mkdirSync(parent, { recursive: true })
  const folders = parents.map((parent) => `${parent}/s${counter.next}`)
  counter.next++
  const [memory = '', pids = '', cpu = '', unified = ''] = folders
  const plan: CgroupPlan = {
    folders,
    parents,
    settings: [
      [`${memory}/memory.limit_in_bytes`, String(limits.memoryBytes)],
      [`${pids}/pids.max`, String(limits.pids)],
    ],
    killFile: `${unified}/cgroup.kill`,
    figures: {
      cpuNs: { file: `${cpu}/cpuacct.usage` },
      memoryPeakBytes: { file: `${memory}/memory.max_usage_in_bytes` },
      oomKills: { file: `${memory}/memory.oom_control`, key: 'oom_kill' },
    },
    watches: [
      { limit: 'memoryBytes', file: `${memory}/memory.oom_control`, key: 'oom_kill', atLeast: 1 },
      { limit: 'pids', file: `${pids}/pids.events`, key: 'max', atLeast: 1 },
      { limit: 'cpuMs', file: `${cpu}/cpuacct.usage`, atLeast: 2e9 },
    ],
  }
  return { plan, parents }
}

/** Removes the parents that `groupsPlan` created; fails when a group is left in them. */
export function removeParents(): void {
  for (const name of ['memory', 'pids', 'cpuacct', 'unified']) {
    const parent = `/sys/fs/cgroup/${name}/gantry-test-${process.pid}`
    if (existsSync(parent)) rmdirSync(parent)
  }
}

export function launch(plan: LaunchPlan, signal: AbortSignal = calm): Promise<Launched> {
  return startLauncher(binary, plan, { signal, startMs: 20_000 })
}

const env = { PATH: '/usr/local/bin:/usr/bin:/bin' }

export function shell(script: string, changes: Partial<LaunchStep> = {}): LaunchStep {
  return { argv: ['sh', '-c', script], env, ...changes }
}

export type Job = Partial<LaunchJob> & { readonly script?: string }

export function jobOf({ script, ...job }: Job): LaunchJob {
  const steps = script === undefined ? {} : { steps: [shell(script)] as const }
  return { stdoutBytes: 100_000, stderrBytes: 100_000, ...steps, ...job }
}

export function runOn(launched: Launched, job: Job, options: Partial<RunOptions> = {}): Promise<RunEnd> {
  return launched.run(jobOf(job), { wallMs: 20_000, signal: calm, ...options })
}

/** Starts a sandbox for one job and disposes it. */
export async function runOnce(plan: LaunchPlan, job: Job, options: Partial<RunOptions> = {}): Promise<RunEnd> {
  const launched = await launch(plan)
  try {
    return await runOn(launched, job, options)
  } finally {
    await launched.dispose()
  }
}

export function text({ bytes }: { readonly bytes: Uint8Array }): string {
  return Buffer.from(bytes).toString()
}

/** Processes of this machine whose command line contains a word; each test uses its own word. */
export function processesWith(word: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^[0-9]+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => commandOf(name).includes(word))
    .map(Number)
}

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8')
  } catch {
    return ''
  }
}

/** Waits until the condition is true. */
export async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5))
}
