import type { Outcome } from '@gantry/core/internal/runtimes/runtime'

type Enforced = Outcome['enforced']

const common: Enforced = {
  wallMs: 'timer',
  memoryBytes: 'maximum of the linear memory',
  pids: 'no processes',
  diskBytes: 'workspace in memory',
  stdoutBytes: 'cap',
  stderrBytes: 'cap',
}

/** What holds which limit, by what runs. */
export const enforced = {
  thread: { ...common, cpuMs: 'time of the thread' },
  python: common,
} as const satisfies { readonly [part: string]: Enforced }
