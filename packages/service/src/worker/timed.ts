import type { Bus, WorkerEvents } from '../stores/bus.ts'

/** Does the work of a stage and tells how long it took, whatever came of it. */
export async function timed<T>(
  bus: Bus,
  stage: WorkerEvents['stage:timed']['stage'],
  work: () => Promise<T>,
): Promise<T> {
  const start = performance.now()
  try {
    return await work()
  } finally {
    bus.emit('stage:timed', { stage, ms: performance.now() - start })
  }
}
