import {
  type ChainResult,
  type ChainStep,
  codes,
  type Identity,
  type Json,
  type ProgramLanguage,
  type ProgramLimits,
  type Result,
  type StepResult,
  ToolError,
} from '@gantry/contract'
import type { ChainLimits } from './limits.ts'

/** Options that every work has. */
interface Work {
  /** Also the name of the work in the engine: the same id and the same work give the same outcome, and it runs once. */
  readonly id: string
  /** Established by the host; the engine carries it so that only a holder of its key can change it. */
  readonly identity: Identity
  readonly timeoutMs?: number | undefined
  readonly signal?: AbortSignal | undefined
}

export interface ChainWork extends Work {
  readonly steps: readonly ChainStep[]
  readonly input: Json
  readonly limits?: Partial<ChainLimits> | undefined
  readonly onStep?: ((step: StepResult) => void) | undefined
}

export interface CodeWork extends Work {
  readonly code: string
  readonly language?: ProgramLanguage | undefined
  readonly limits?: ProgramLimits | undefined
  readonly check?: boolean | undefined
}

/**
 * Runs chains and programs over tools elsewhere, with a journal of its own, so that they go on when a process is lost.
 * Each inner call is a run of the pipeline there, as the identity of the work.
 * - Cancellation: the signal cancels the work, which then ends as CANCELLED.
 * - Errors: resolves with a failed outcome, never rejects.
 * - Ownership: the executor that has the engine closes it; work that it handed over goes on.
 */
export interface WorkEngine {
  chain(work: ChainWork): Promise<ChainResult>
  code(work: CodeWork): Promise<Result>
  close(): Promise<void>
}

/** The outcome of a chain that an engine did not run. */
export function chainFailure(chainId: string, failure: ToolError, at: number): ChainResult {
  const { code, message, stage, retryable, effect } = failure
  return {
    chainId,
    status: codes[code].status,
    output: null,
    error: { code, message, stage, retryable, effect },
    steps: [],
    startedAt: new Date(at).toISOString(),
    durationMs: 0,
  }
}

/** The engine of a name. Throws CONFIG_INVALID for one that is not configured. */
export function engineOf(engines: { readonly [name: string]: WorkEngine } | undefined, name: string): WorkEngine {
  const found = engines !== undefined && Object.hasOwn(engines, name) ? engines[name] : undefined
  if (found !== undefined) return found
  const known = Object.keys(engines ?? {}).join(', ') || 'none'
  const issues = [{ path: '/engine', message: `must be a configured engine; there is ${known}` }]
  const message = `The engine ${JSON.stringify(name.slice(0, 64))} is not configured; add it under engines, or leave the option out.`
  throw new ToolError('CONFIG_INVALID', message, { details: { issues } })
}

/** Throws INPUT_INVALID for options that only a run in this process can have, rather than to ignore them. */
export function refuseLocalOptions(given: object, names: readonly string[]): void {
  const found = Object.entries(given).filter(([name, value]) => value !== undefined && names.includes(name))
  if (found.length === 0) return
  const issues = found.map(([name]) => ({ path: `/${name}`, message: 'cannot be used with an engine' }))
  const list = found.map(([name]) => name).join(', ')
  const message = `Invalid options: ${list} cannot be used with an engine, because the work leaves this process; leave them out.`
  throw new ToolError('INPUT_INVALID', message, { details: { issues }, effect: 'none' })
}
