import { ToolError } from '@gantry/contract'
import type { Backend } from './backends/backend.ts'
import type { Ports } from './pipeline/ports.ts'

/** Lets calls end by themselves, then cancels them, then closes the backends. */
export async function shutDown(ports: Ports, graceMs: number): Promise<void> {
  const idle = async (): Promise<void> => {
    await Promise.all(ports.deadlines.waiters().map((run) => run.whenEnded))
  }
  // A call that came in just now is counted once it waits, which takes it no longer than this turn.
  await new Promise((resolve) => setImmediate(resolve))
  if (ports.deadlines.waiters().length > 0) {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, graceMs)
    await Promise.race([idle(), late.promise])
    clearTimeout(timer)
    for (const run of ports.deadlines.waiters()) run.stop(new ToolError('CANCELLED', 'The executor was closed.'))
    await idle()
  }
  await Promise.allSettled(ports.registry.all().map((backend) => closeBackend(backend, graceMs)))
}

/** Lets the calls of one backend end by themselves, then cancels them, then closes it. */
export async function drainBackend(ports: Ports, backend: Backend, graceMs: number): Promise<void> {
  const there = () => ports.deadlines.waiters().filter((run) => run.backend === backend)
  const idle = async (): Promise<void> => {
    await Promise.all(there().map((run) => run.whenEnded))
  }
  // A call that came in just now is counted once it waits, which takes it no longer than this turn.
  await new Promise((resolve) => setImmediate(resolve))
  if (there().length > 0) {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, Math.min(graceMs, 2_147_483_647))
    await Promise.race([idle(), late.promise])
    clearTimeout(timer)
    for (const run of there()) run.stop(new ToolError('CANCELLED', `The backend ${backend.name} was removed.`))
    await idle()
  }
  await closeBackend(backend, graceMs).catch(() => undefined)
}

/** Gives a backend its time to close; one that ignores the signal is left behind. */
async function closeBackend(backend: Backend, graceMs: number): Promise<void> {
  const late = new AbortController()
  const given = Promise.withResolvers<void>()
  const timer = setTimeout(
    () => {
      late.abort(new ToolError('TIMEOUT', `The backend ${backend.name} did not close within ${graceMs} ms.`))
      given.resolve()
    },
    Math.min(graceMs, 2_147_483_647),
  )
  try {
    await Promise.race([backend.close?.(late.signal), given.promise])
  } finally {
    clearTimeout(timer)
  }
}
