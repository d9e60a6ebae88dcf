import type { SpawnSyncReturns } from 'node:child_process'
import type { SandboxLimits } from '@gantry/contract'
import { start } from './bubblewrap.fixture.ts'
import { createPlanner, type Planned, type Planner, type PlannerOptions } from './planner.ts'

export const limits: SandboxLimits = {
  wallMs: 10_000,
  cpuMs: 10_000,
  memoryBytes: 268_435_456,
  pids: 64,
  diskBytes: 1_048_576,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}

/** A planner whose init is never run: `inside` replaces it with a command. */
export function plannerFor(sandboxRoot: string, options: Partial<PlannerOptions> = {}): Promise<Planner> {
  return createPlanner({ launcher: '/bin/true', sandboxRoot, signal: AbortSignal.timeout(20_000), ...options })
}

/** Runs a command in place of the init. */
export function inside({ plan }: Planned, ...command: string[]): SpawnSyncReturns<string> {
  const init = plan.argv.indexOf('/gantry/init', plan.argv.lastIndexOf('--remount-ro'))
  return start({ argv: [...plan.argv.slice(0, init), ...command], seccompFile: plan.seccompFile, uid: plan.uid })
}

/** The same plan without the seccomp filter, which would refuse first. */
export function withoutFilter({ plan, ...planned }: Planned): Planned {
  const { seccompFile: _, ...rest } = plan
  const at = plan.argv.indexOf('--seccomp')
  const [program, ...args] = plan.argv
  return { ...planned, plan: { ...rest, argv: [program, ...args.toSpliced(at - 1, 2)] } }
}

/** Prints the sandbox of an unprivileged user: `node planner.fixture.ts <root>`. */
if (import.meta.main) {
  const planner = await plannerFor(process.argv[2] ?? '')
  const planned = planner.plan('one', { limits, network: 'none' })
  const { stdout, stderr } = inside(planned, '/usr/bin/python3', '-c', 'import os; print(os.getuid(), os.getpid())')
  const { enforced, missing } = planner
  const refusal = planner.refuses({ limits, network: 'none', strict: true })
  const { uid, rlimits, cgroups } = planned.plan
  console.log(JSON.stringify({ stdout, stderr, enforced, missing, refusal, uid, rlimits, folders: cgroups.folders }))
  await planner.close()
}
