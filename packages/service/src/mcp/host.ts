import { type ChainResult, type Identity, type Report, type Result, ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { Service } from '../http/service.ts'
import type { CallInput } from '../storage/call-input.ts'

export type Outcome = Result | ChainResult

/** Of one call, who makes it and who listens. */
export interface Making {
  readonly identity: Identity
  /** Aborts when the caller does not want the outcome any more. */
  readonly signal: AbortSignal
  /** Hears what the tool reports, in order; absent, nobody does, which is cheaper. */
  readonly hear?: ((report: Report) => Promise<void>) | undefined
}

/** What is known of tools, and to whom. */
export type Knowing = Pick<Executor, 'tools' | 'find' | 'search' | 'describe' | 'hashFor' | 'ready' | 'catalog'>

/**
 * Where the tools of an MCP server are: the service, which keeps calls, or an executor in this process.
 * - Concurrency: any number of calls at once, of any identities.
 * - Cancellation: a call whose signal aborts is cancelled, and `run` rejects.
 * - Errors: `run` rejects with ToolError for what was refused; whatever ran has an outcome.
 */
export interface McpHost {
  readonly executor: Knowing
  run(input: CallInput, making: Making): Promise<Outcome>
  /** There when calls outlive whoever made them. */
  readonly durable?: Pick<Service, 'submit' | 'wait' | 'call' | 'calls' | 'cancel'>
  readonly artifact?: Service['artifact']
}

/** How long one question for an outcome waits; it is asked again as long as somebody wants it. */
const waitMs = 60_000

/**
 * The service as a host. `leaving` aborts when this process is about to stop: calls whose connection breaks from then on
 * stay, because it was not their caller who left.
 */
export function serviceHost(service: Service, leaving: AbortSignal): McpHost {
  const outcomeOf = async (callId: string, { identity, signal, hear }: Making): Promise<Outcome> => {
    if (hear !== undefined) {
      for await (const event of await service.events(callId, 0, identity, signal)) {
        if (event.kind === 'done' || event.kind === 'error') return event.result
        await hear(event)
      }
    }
    for (;;) {
      const outcome = await service.wait(callId, identity, waitMs, signal)
      if (outcome !== undefined) return outcome
      signal.throwIfAborted()
    }
  }
  return {
    get executor() {
      return service.executor
    },
    async run(input, making) {
      const { identity, signal } = making
      const { callId } = await service.submit(input, identity, { waits: making.hear === undefined })
      // A service that is away cannot be told; the call ends by its own time limit then.
      const cancel = (): void => void (leaving.aborted || service.cancel(callId, identity).catch(() => undefined))
      signal.addEventListener('abort', cancel, { once: true })
      if (signal.aborted) cancel()
      try {
        return await outcomeOf(callId, making)
      } catch (error) {
        throw leaving.aborted ? goesOn(callId, error) : error
      } finally {
        signal.removeEventListener('abort', cancel)
      }
    },
    durable: service,
    artifact: (id, range, identity, signal) => service.artifact(id, range, identity, signal),
  }
}

/** Of a call whose outcome nobody here waits for any more, although nobody cancelled it. */
export function goesOn(callId: string, cause: unknown): ToolError {
  const message = `The service is about to stop; the call ${callId} is kept and goes on.`
  return new ToolError('SERVICE_UNAVAILABLE', message, { cause, effect: 'possible', retryable: false })
}

/** An executor in this process as a host; its calls end with it. */
export function executorHost(executor: Executor): McpHost {
  return {
    executor,
    async run({ kind, tool, args }, { identity, signal, hear }) {
      if (kind === 'chain') {
        const { steps, input } = args as { readonly steps: never; readonly input?: never }
        return executor.chain(steps, { identity, signal, ...(input === undefined ? {} : { input }) })
      }
      return executor.run(tool ?? '', args, { identity, signal, ...(hear === undefined ? {} : { report: hear }) })
    },
  }
}

/** The refusal that a call is, which never ran; a fault of ours is not one. */
export function refusalOf(thrown: unknown): ToolError {
  if (ToolError.is(thrown)) return thrown
  throw thrown
}
