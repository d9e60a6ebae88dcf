import type { Outcome, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { Inside } from './launch-job.ts'

/** Limits that no control group holds are watched by the init. */
export function watchOf({ limits }: SandboxSpec, enforced: Outcome['enforced']): Inside['watch'] {
  const byKernel = (limit: 'memoryBytes' | 'pids' | 'cpuMs'): boolean => enforced[limit]?.startsWith('cgroup') === true
  return {
    ...(byKernel('memoryBytes') ? {} : { memoryBytes: limits.memoryBytes }),
    ...(byKernel('pids') ? {} : { pids: limits.pids }),
    ...(byKernel('cpuMs') ? {} : { cpuMs: limits.cpuMs }),
  }
}
