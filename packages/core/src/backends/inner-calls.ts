import type { ChainResult, Identity, Json, Result, Tool } from '@gantry/contract'
import type { InnerNames, ProgramJournal, WriteBack } from './program-journal.ts'

/** Where a program stands among the programs around it. */
export interface ProgramNesting {
  /** How many programs may still stand in one another from here on. */
  readonly depthLeft: number
  /** Takes a call, or several, off the budgets of this program and those around it. Throws LIMIT_EXCEEDED. */
  takeCall(count?: number): void
  /** The call that makes the inner calls; it is their parent in the audit log. */
  readonly within?: string | undefined
  /** Nothing of it is taken up again, so that its calls cannot wait for a person who answers later. */
  readonly unattended?: boolean | undefined
}

/** A tool as search shows it. */
export interface FoundTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly score: number
}

export interface FoundTools {
  readonly items: readonly FoundTool[]
}

/** What every inner call of a program has of it. */
export interface InnerOptions {
  readonly identity: Identity
  readonly signal: AbortSignal
  readonly traceparent: string | undefined
  readonly writeBack: WriteBack
  readonly place: ProgramNesting
}

export interface InnerCallOptions extends InnerOptions {
  readonly callId: string
  readonly idempotencyKey: string | undefined
  readonly timeoutMs?: number | undefined
  /** Keeps what the call, should it be a program itself, comes to. */
  readonly program: ProgramJournal | undefined
}

export interface InnerChainOptions extends InnerOptions {
  readonly chainId: string
  readonly input: Json | undefined
  /** Those of the executor when absent. */
  readonly limits: { readonly steps: number; readonly parallel: number } | undefined
  /** Told of each call of the chain as it ends. */
  readonly onCall: (result: Result) => void
  readonly around: InnerNames['around']
}

/**
 * The doors of an executor for the programs that it runs: under the same policy and on the same record as the call of the
 * program itself. `run` and `chain` never reject for what a call does.
 */
export interface InnerCalls {
  run(tool: string, args: unknown, options: InnerCallOptions): Promise<Result>
  chain(steps: unknown, options: InnerChainOptions): Promise<ChainResult>
  /** As how many steps a chain counts. */
  countSteps(steps: readonly Json[]): number
  search(
    words: string,
    options: { readonly identity: Identity; readonly signal: AbortSignal; readonly limit: number | undefined },
  ): Promise<FoundTools>
  describe(
    tool: string,
    options: { readonly identity: Identity; readonly level?: string | undefined; readonly examples?: number },
  ): Promise<{ readonly examples?: readonly object[] }>
  /** Tools in namespaces and by ids, each under the id that names it; what the caller may not see is left out. */
  named(
    what: { readonly namespaces: readonly string[]; readonly ids: readonly string[] },
    options: { readonly identity: Identity; readonly signal: AbortSignal },
  ): Promise<readonly { readonly id: string; readonly tool: Tool }[]>
}
