import type { Bus } from '../observe/bus.ts'

/** What is done from time to time besides the calls. */
export interface PeriodicJob {
  readonly name: string
  readonly everyMs: number
  /** The first time, so that a process that is started often does it too; `everyMs` when absent. */
  readonly firstMs?: number
  readonly work: () => Promise<unknown>
}

/** Starts chores, each never beside itself; a failure is told and left to the next time. Answers the function that stops them. */
export function startPeriodicJobs(chores: readonly PeriodicJob[], bus: Bus): () => Promise<void> {
  const timers = new Map<PeriodicJob, NodeJS.Timeout>()
  const running = new Set<Promise<void>>()
  let stopped = false

  const schedule = (chore: PeriodicJob, ms: number): void => {
    if (stopped) return
    timers.set(
      chore,
      setTimeout(() => {
        const done = run(chore).finally(() => running.delete(done))
        running.add(done)
      }, ms),
    )
  }
  const run = async (chore: PeriodicJob): Promise<void> => {
    try {
      await chore.work()
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error)
      if (!stopped) bus.emit('upkeep:failed', { what: chore.name, reason })
    }
    schedule(chore, chore.everyMs)
  }
  for (const chore of chores) schedule(chore, chore.firstMs ?? chore.everyMs)
  return async () => {
    stopped = true
    for (const timer of timers.values()) clearTimeout(timer)
    await Promise.all(running)
  }
}
