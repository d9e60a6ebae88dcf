import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { checkProgram, checkSpace } from '../guest/job-checks.ts'
import { fromHost } from './frames.ts'
import type { HostClient } from './host-client.ts'
import { createTurns } from './run-job.ts'

/**
 * A sandbox for Python: a process of its own, with an interpreter that waits in it. It ends with its program; in a session
 * with the first run that is cancelled, overruns or breaks.
 */
export async function openPythonSandbox(host: HostClient, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
  const startCpuMs = await readyHost(host, signal)
  const turns = createTurns(host, spec, startCpuMs)
  let used = false
  return {
    id: randomBytes(9).toString('base64url'),
    ended: host.gone,
    async run(job, jobSignal) {
      checkProgram(job.program, spec)
      checkSpace(job, spec)
      if (used && spec.session !== true) throw new ToolError('INTERNAL', 'A sandbox runs one program only.')
      used = true
      return await turns.run(job, jobSignal)
    },
    dispose: host.kill,
  }
}

/** Waits until a host is an interpreter; the processor time that this took. */
async function readyHost(host: HostClient, signal: AbortSignal): Promise<number> {
  const ready = Promise.withResolvers<number>()
  host.listen((kind, payload) => {
    if (kind === fromHost.ready) ready.resolve(Number(payload.toString()))
  })
  void host.gone.then(() => {
    const cause = new Error(host.lastWords)
    ready.reject(new ToolError('SANDBOX_INIT_FAILED', 'The Python interpreter did not start.', { cause }))
  })
  try {
    return await unlessAborted(ready.promise, signal)
  } catch (error) {
    await host.kill()
    throw error
  }
}
