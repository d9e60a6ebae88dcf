import type { Span } from '@gantry/core'
import { codeOf } from '@gantry/core/internal/tracing/tracer'
import type { Bus, WorkerEvents } from '../observe/bus.ts'

/** Does the work of a stage and tells how long it took, whatever came of it; in a trace it is a part of the task. */
export async function timed<T>(
  bus: Bus,
  stage: WorkerEvents['stage:timed']['stage'],
  task: Span | undefined,
  work: (span: Span | undefined) => Promise<T>,
): Promise<T> {
  const start = performance.now()
  const span = task?.child(`task.${stage}`)
  try {
    const done = await work(span)
    span?.end()
    return done
  } catch (error) {
    span?.end(codeOf(error))
    throw error
  } finally {
    bus.emit('stage:timed', { stage, ms: performance.now() - start })
  }
}
