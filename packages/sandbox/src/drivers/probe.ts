import { type SandboxLimits, ToolError } from '@gantry/contract'
import type { Outcome, Probe, Program, Sandbox, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { Planner } from '../process/planner.ts'
import { readSelfTest, type SelfTest } from './self-test.ts'

/** What a probe needs of a runtime that starts launchers. */
export interface Trial {
  readonly signal: AbortSignal
  /** Whose programs are there. */
  readonly languages: readonly string[]
  /** Whether the sandbox attacks itself; there is nothing to attack where nothing guards. */
  readonly guarded: boolean
  ground(): Promise<Pick<Planner, 'version' | 'enforced'>>
  start(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
}

const limits: SandboxLimits = {
  wallMs: 10_000,
  cpuMs: 10_000,
  memoryBytes: 67_108_864,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}

/** Starts sandboxes for real: one attacks itself from the inside, and the fastest of three tells the time of a start. */
export async function probeByTrial(trial: Trial): Promise<Probe> {
  try {
    const { version, enforced } = await trial.ground()
    const { refused, open } = trial.guarded ? readSelfTest(await runIn(trial, ['/gantry/init', 'selftest'])) : untested
    if (open.length > 0) return breached(version, open)
    const times: number[] = []
    for (let round = 0; round < 3; round += 1) {
      const before = performance.now()
      await runIn(trial, ['/bin/true'])
      times.push(performance.now() - before)
    }
    return {
      available: true,
      version,
      startMs: Math.round(Math.min(...times) * 100) / 100,
      limits: enforced,
      languages: trial.languages,
      attacks: refused,
    }
  } catch (error) {
    trial.signal.throwIfAborted()
    return { available: false, ...reasonOf(error) }
  }
}

const untested: SelfTest = { refused: [], open: [] }

async function runIn(trial: Trial, argv: Extract<Program, { kind: 'argv' }>['argv']): Promise<Outcome> {
  const sandbox = await trial.start({ limits, network: 'none' }, trial.signal)
  try {
    return await sandbox.run({ program: { kind: 'argv', argv } }, trial.signal)
  } finally {
    await sandbox.dispose()
  }
}

function breached(version: string, attacks: readonly string[]): Probe {
  return {
    available: false,
    version,
    breached: attacks,
    reason: `The sandbox does not hold on this machine: self-test attacks ${attacks.join(', ')} worked.`,
    remedy: 'Do not use it here. Please report this, with the output of `gantry doctor --json` and `uname -a`.',
  }
}

function reasonOf(error: unknown): { readonly reason: string; readonly remedy: string } {
  const details = ToolError.is(error)
    ? (error.details as { reason?: unknown; remedy?: unknown } | undefined)
    : undefined
  const { reason, remedy } = details ?? {}
  const message = error instanceof Error ? error.message : String(error)
  return {
    reason: typeof reason === 'string' ? reason : message,
    remedy: typeof remedy === 'string' ? remedy : 'Mend that, then run `gantry doctor` again.',
  }
}
