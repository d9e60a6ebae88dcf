import {
  type ArtifactRef,
  type CallView,
  type ChainResult,
  type Identity,
  type Paged,
  type Report,
  type Result,
  ToolError,
} from '@gantry/contract'
import type { Executor } from '@gantry/core'

export type Outcome = Result | ChainResult

/** A call as a client of MCP submits it. */
export interface McpCallInput {
  readonly kind: 'call' | 'chain'
  /** `namespace:name`, with a version, a range or neither; absent for a chain. */
  readonly tool?: string
  /** The arguments, or `{ steps, input }` of a chain. */
  readonly args: unknown
  readonly traceparent?: string
}

/** The caller of one call, and what the caller receives while it runs. */
export interface CallScope {
  readonly identity: Identity
  /** Aborts when the caller no longer wants the outcome. */
  readonly signal: AbortSignal
  /** Receives the tool's reports in order; a call without it is cheaper. */
  readonly onReport?: ((report: Report) => Promise<void>) | undefined
}

/** Discovery of tools, as each identity sees them. */
export type ToolDirectory = Pick<Executor, 'tools' | 'find' | 'search' | 'describe' | 'hashFor' | 'ready' | 'catalog'>

/** Calls that outlive the connection that submitted them; everything is within the identity's tenant. */
export interface DurableCalls {
  /** With `waits` the caller is not informed of the call before `wait` resolves. */
  submit(
    input: McpCallInput,
    identity: Identity,
    how?: { readonly waits?: boolean },
  ): Promise<{ readonly callId: string }>
  /** The outcome; undefined when the call has none after `waitMs`, or when the signal aborts. */
  wait(callId: string, identity: Identity, waitMs: number, signal: AbortSignal): Promise<Outcome | undefined>
  call(callId: string, identity: Identity): Promise<CallView>
  calls(query: { readonly cursor?: string }, identity: Identity): Promise<Paged<CallView>>
  cancel(callId: string, identity: Identity): Promise<CallView>
}

/**
 * Where the tools of an MCP server run: the service, which stores calls, or an executor in this process.
 * - Concurrency: any number of calls at once, of any identities.
 * - Cancellation: a call whose signal aborts is cancelled, and `run` rejects.
 * - Errors: `run` rejects with ToolError for a call that was refused; a call that ran has an outcome.
 */
export interface McpHost {
  readonly executor: ToolDirectory
  run(input: McpCallInput, scope: CallScope): Promise<Outcome>
  /** Present when calls outlive their caller. */
  readonly durable?: DurableCalls
  /** Present when artifacts can be read; the content from `start` up to but without `end`. */
  artifact?(
    id: string,
    range: { readonly start: number; readonly end?: number } | undefined,
    identity: Identity,
    signal: AbortSignal,
  ): Promise<{ readonly artifact: ArtifactRef; readonly content: AsyncIterable<Uint8Array> }>
}

/** An executor in this process as a host; its calls end with the process. */
export function executorHost(executor: Executor): McpHost {
  return {
    executor,
    async run({ kind, tool, args }, { identity, signal, onReport }) {
      if (kind === 'chain') {
        const { steps, input } = args as { readonly steps: never; readonly input?: never }
        return executor.chain(steps, { identity, signal, ...(input === undefined ? {} : { input }) })
      }
      const report = onReport === undefined ? {} : { report: onReport }
      return executor.run(tool ?? '', args, { identity, signal, ...report })
    },
  }
}

/** The error of a call whose connection ends with this process, though the call was not cancelled. */
export function callContinues(callId: string, cause: unknown): ToolError {
  const message = `The service is stopping; call ${callId} is stored and continues.`
  return new ToolError('SERVICE_UNAVAILABLE', message, { cause, effect: 'possible', retryable: false })
}

/** The refusal of a call that never ran; anything but a ToolError is a fault of this process and is thrown on. */
export function refusalOf(thrown: unknown): ToolError {
  if (ToolError.is(thrown)) return thrown
  throw thrown
}
