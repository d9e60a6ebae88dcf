import { after } from 'node:test'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, ProgramRequest, ProgramResponse, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { createProcessRuntime } from './process.ts'

const limits: SandboxLimits = {
  wallMs: 30_000,
  cpuMs: 20_000,
  memoryBytes: 134_217_728,
  pids: 32,
  diskBytes: 8_388_608,
  stdoutBytes: 65_536,
  stderrBytes: 65_536,
}
const calm = new AbortController().signal

/** Answers one gateway request; undefined leaves it without a response. */
export type Answering = (
  question: ProgramRequest,
) => Omit<ProgramResponse, 'number'> | undefined | Promise<Omit<ProgramResponse, 'number'> | undefined>

export interface AskedRun {
  readonly outcome: Outcome
  readonly stdout: string
  /** Numbers of the requests of each quiescence. */
  readonly rests: readonly (readonly number[])[]
  readonly questions: readonly ProgramRequest[]
}

/** Runs Python programs over tools in a process runtime of the test file. */
export function askingRuns() {
  const runtime = createProcessRuntime()
  after(() => runtime.close())
  return async (
    code: string,
    answering: Answering,
    spec: Partial<Omit<SandboxSpec, 'limits'>> & { readonly limits?: Partial<SandboxLimits> } = {},
    signal = calm,
  ): Promise<AskedRun> => {
    const whole = {
      language: 'python',
      network: 'none',
      gateway: true,
      ...spec,
      limits: { ...limits, ...spec.limits },
    } as const
    const sandbox = await runtime.open(whole, signal)
    const rests: number[][] = []
    const questions: ProgramRequest[] = []
    const ask = (asked: readonly ProgramRequest[], answer: (answer: ProgramResponse) => void): void => {
      rests.push(asked.map(({ number }) => number))
      questions.push(...asked)
      for (const question of asked) {
        void Promise.resolve(answering(question)).then(
          (given) => given && answer({ ...given, number: question.number }),
        )
      }
    }
    try {
      const outcome = await sandbox.run(
        { program: { kind: 'code', language: 'python', code }, gateway: { ask } },
        signal,
      )
      return { outcome, stdout: Buffer.from(outcome.stdout.bytes).toString(), rests, questions }
    } finally {
      await sandbox.dispose()
    }
  }
}

/** Adds `a` and `b` for `math:add`, fails for `math:fail`, and returns kind and text for everything else. */
export const adding: Answering = ({ kind, text }) => {
  const { tool, args = {} } = JSON.parse(text)
  if (kind !== 'call') return { ok: true, text: JSON.stringify({ kind, asked: JSON.parse(text) }) }
  if (tool === 'math:add') return { ok: true, text: JSON.stringify(args.a + args.b) }
  const error = { code: 'BACKEND_FAILED', message: `no ${tool}`, retryable: true, details: { why: 'test' } }
  return { ok: false, text: JSON.stringify(error) }
}
