import type { Bus } from '../observe/bus.ts'

/** A job that runs at an interval. */
export interface PeriodicJob {
  readonly name: string
  readonly everyMs: number
  /** The delay of the first run, so that a process that restarts often runs it too; `everyMs` when absent. */
  readonly firstMs?: number
  readonly work: () => Promise<unknown>
}

/**
 * Starts periodic jobs. A job never overlaps itself; a failure is logged and the job runs again at its next interval.
 * Returns the function that stops them.
 */
export function startPeriodicJobs(jobs: readonly PeriodicJob[], bus: Bus): () => Promise<void> {
  const timers = new Map<PeriodicJob, NodeJS.Timeout>()
  const running = new Set<Promise<void>>()
  let stopped = false

  const schedule = (job: PeriodicJob, ms: number): void => {
    if (stopped) return
    timers.set(
      job,
      setTimeout(() => {
        const done = run(job).finally(() => running.delete(done))
        running.add(done)
      }, ms),
    )
  }
  const run = async (job: PeriodicJob): Promise<void> => {
    try {
      await job.work()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (!stopped) bus.emit('upkeep:failed', { what: job.name, reason })
    }
    schedule(job, job.everyMs)
  }
  for (const job of jobs) schedule(job, job.firstMs ?? job.everyMs)
  return async () => {
    stopped = true
    for (const timer of timers.values()) clearTimeout(timer)
    await Promise.all(running)
  }
}
