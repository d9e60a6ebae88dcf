import { after } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createWasmRuntime } from './wasm.ts'

const mebibyte = 1_048_576

export const limits: SandboxLimits = {
  wallMs: 20_000,
  cpuMs: 20_000,
  memoryBytes: 128 * mebibyte,
  pids: 8,
  diskBytes: 4 * mebibyte,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}

export interface RunOptions {
  readonly limits?: Partial<SandboxLimits>
  readonly spec?: Partial<SandboxSpec>
  readonly job?: Partial<SandboxJob>
  readonly signal?: AbortSignal
}

/** An outcome as tests read it. */
export interface Ran extends Pick<Outcome, 'exit' | 'hit' | 'value' | 'skipped' | 'usage'> {
  readonly stdout: string
  readonly stderr: string
  readonly outcome: Outcome
}

export interface Bench {
  readonly runtime: Runtime
  code(language: string, code: string, options?: RunOptions): Promise<Ran>
  wasi(module: Uint8Array, options?: RunOptions): Promise<Ran>
}

/** A runtime for the tests of a file, closed after them. */
export function createBench(): Bench {
  const runtime = createWasmRuntime()
  after(() => runtime.close())
  const run = async (job: SandboxJob, language: string | undefined, options: RunOptions): Promise<Ran> => {
    const spec: SandboxSpec = {
      network: 'none',
      ...(language === undefined ? {} : { language }),
      ...options.spec,
      limits: { ...limits, ...options.limits },
    }
    const signal = options.signal ?? AbortSignal.timeout(60_000)
    const sandbox = await runtime.open(spec, signal)
    try {
      return readable(await sandbox.run({ ...job, ...options.job }, signal))
    } finally {
      await sandbox.dispose()
    }
  }
  return {
    runtime,
    code: (language, code, options = {}) => run({ program: { kind: 'code', language, code } }, language, options),
    wasi: (module, options = {}) => run({ program: { kind: 'wasi', module } }, undefined, options),
  }
}

export function readable(outcome: Outcome): Ran {
  const { exit, hit, value, skipped, usage } = outcome
  const [stdout, stderr] = [outcome.stdout, outcome.stderr].map(({ bytes }) => new TextDecoder().decode(bytes))
  return {
    exit,
    skipped,
    usage,
    outcome,
    stdout: stdout ?? '',
    stderr: stderr ?? '',
    ...(hit === undefined ? {} : { hit }),
    ...(value === undefined ? {} : { value }),
  }
}
