import { type CallScope, callContinues, type McpHost, type Outcome } from '@gantry/mcp/internal/server/host'
import type { Service } from '../http/service.ts'

/** How long one request for an outcome waits; it is repeated as long as the caller wants the outcome. */
const waitMs = 60_000

/**
 * The service as a host. `leaving` aborts when this process is about to stop: a call whose connection breaks from then on
 * is not cancelled, because its caller did not leave.
 */
export function serviceHost(service: Service, leaving: AbortSignal): McpHost {
  const outcomeOf = async (callId: string, { identity, signal, onReport }: CallScope): Promise<Outcome> => {
    if (onReport !== undefined) {
      for await (const event of await service.events(callId, 0, identity, signal)) {
        if (event.kind === 'done' || event.kind === 'error') return event.result
        await onReport(event)
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
    async run(input, scope) {
      const { identity, signal } = scope
      const { callId } = await service.submit(input, identity, { waits: scope.onReport === undefined })
      // When the store is unavailable the cancellation is lost; the call then ends by its own time limit.
      const cancel = (): void => void (leaving.aborted || service.cancel(callId, identity).catch(() => undefined))
      signal.addEventListener('abort', cancel, { once: true })
      if (signal.aborted) cancel()
      try {
        return await outcomeOf(callId, scope)
      } catch (error) {
        throw leaving.aborted ? callContinues(callId, error) : error
      } finally {
        signal.removeEventListener('abort', cancel)
      }
    },
    durable: service,
    artifact: (id, range, identity, signal) => service.artifact(id, range, identity, signal),
  }
}
