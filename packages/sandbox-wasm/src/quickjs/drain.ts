import type { QuickJSHandle } from 'quickjs-emscripten-core'
import type { Guest } from './guest.ts'
import type { Run } from './run.ts'

const jobsAtOnce = 1_000

/** Does what promises wait for, which can be without end. */
export function drain(guest: Guest, run: Run, fail: (error: QuickJSHandle) => void): void {
  const { runtime } = guest.context
  while (!run.over && runtime.hasPendingJob()) {
    const done = runtime.executePendingJobs(jobsAtOnce)
    if (done.error !== undefined && !run.over) fail(done.error)
    run.host.interrupt()
  }
}
