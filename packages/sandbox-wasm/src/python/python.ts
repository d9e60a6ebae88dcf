import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Refusal, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { checkProgram, checkSpace } from '../guest/limits.ts'
import { attack, pythonAttack } from '../guest/self-test.ts'
import { fromHost } from './frames.ts'
import type { HostClient } from './host-process.ts'
import { type Installation, type InstallOptions, install } from './installation.ts'
import { createPythonRuns } from './run-job.ts'

/** Python of one runtime: prepared and self-tested once, before its first program. */
export interface Python {
  /** Waits until Python is ready, which takes seconds the first time on a machine. */
  open(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** The refusal after a failed self-test. */
  readonly refusal: Refusal | undefined
  /** Whether it has passed its self-test. */
  readonly tested: boolean
  /** Cancels the preparation; sandboxes belong to their owners. */
  close(): Promise<void>
}

export function createPython(options: InstallOptions): Python {
  const closing = new AbortController()
  let installing: Promise<Installation> | undefined
  let refusal: Refusal | undefined
  let tested = false

  const start = (installed: Installation, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    return openPythonSandbox(installed.start(spec.limits.memoryBytes), spec, signal)
  }
  const makeReady = async (): Promise<Installation> => {
    const { signal } = closing
    const installed = await install(options, signal)
    if (!(await installed.tested())) {
      const outcome = await attack(pythonAttack, (spec) => start(installed, spec, signal), signal)
      if (!pythonAttack.held(outcome)) {
        refusal = {
          reason: `A program could ${pythonAttack.name}.`,
          remedy: 'Use the process runtime, and report this.',
        }
        throw new ToolError('SANDBOX_INIT_FAILED', 'Python failed its self-test.', { details: { ...refusal } })
      }
      await installed.markTested()
    }
    tested = true
    return installed
  }
  /** Shared by all waiting callers; the next caller retries after a failure. */
  const ready = (): Promise<Installation> => {
    installing ??= makeReady().catch((error: unknown) => {
      installing = undefined
      throw error
    })
    return installing
  }
  return {
    open: async (spec, signal) => start(await unlessAborted(ready(), signal), spec, signal),
    get refusal() {
      return refusal
    },
    get tested() {
      return tested
    },
    async close() {
      closing.abort(new ToolError('CANCELLED', 'The runtime was closed.'))
      await installing?.catch(() => undefined)
    },
  }
}

/**
 * A sandbox for Python: its own process with a warm interpreter. It ends with its program; a session ends with the first
 * run that is cancelled, exceeds a limit or breaks.
 */
export async function openPythonSandbox(host: HostClient, spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> {
  const startCpuMs = await readyHost(host, signal)
  const runs = createPythonRuns(host, spec, startCpuMs)
  let used = false
  return {
    id: randomBytes(9).toString('base64url'),
    ended: host.gone,
    async run(job, jobSignal) {
      checkProgram(job.program, spec)
      checkSpace(job, spec)
      if (used && spec.session !== true) throw new ToolError('INTERNAL', 'A sandbox runs one program only.')
      used = true
      return await runs.run(job, jobSignal)
    },
    dispose: host.kill,
  }
}

/** Waits until a host is ready; returns the CPU time of its start. */
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
