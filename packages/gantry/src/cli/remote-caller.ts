import { randomUUID } from 'node:crypto'
import type { Client } from '@gantry/client'
import {
  type ChainResult,
  codes,
  type ErrorInfo,
  type JsonObject,
  type Result,
  type StreamEvent,
  ToolError,
} from '@gantry/contract'
import type { Caller } from './caller.ts'
import { errorInfoOf } from './errors.ts'

/** A service as a caller. A call that a signal ends is cancelled there, and its outcome is waited for. */
export function remoteCaller(client: Client): Caller {
  return {
    async *stream(tool, args, { signal, timeoutMs, idempotencyKey, onCircuitOpen }) {
      const how = { timeoutMs, idempotencyKey, onCircuitOpen }
      const callId = await refusable(client.submit(tool, args as JsonObject, how))
      if (typeof callId === 'string') yield* followCall(client, callId, signal)
      else yield refusedCall(callId)
    },
    async chain(steps, { input, signal, timeoutMs, onCircuitOpen, progress }) {
      const chainId = await refusable(client.submitChain(steps, { input, timeoutMs, onCircuitOpen }))
      if (typeof chainId !== 'string') return { ...refused(chainId), chainId: randomUUID(), steps: [] }
      for await (const event of followCall(client, chainId, signal)) {
        if (event.kind === 'done' || event.kind === 'error') return event.result as unknown as ChainResult
        progress.report(event)
      }
      throw new Error('The events ended without a result.')
    },
    tools: ({ allVersions, ...filter }) => client.tools({ ...filter, ...(allVersions ? { versions: 'all' } : {}) }),
    search: (words, filter, signal) => client.search(words, { ...filter, signal }),
    describe: (tool, how) => client.describe(tool, how),
  }
}

/** The events of a call up to its end; a signal does not end them but the call. */
async function* followCall(client: Client, callId: string, signal: AbortSignal): AsyncGenerator<StreamEvent, void> {
  // A service that is away cannot be told; the events say so.
  const cancel = (): void => void client.cancel(callId).catch(() => undefined)
  signal.addEventListener('abort', cancel, { once: true })
  if (signal.aborted) cancel()
  try {
    yield* client.events(callId)
  } finally {
    signal.removeEventListener('abort', cancel)
  }
}

/** The id of what was handed in, or why it was refused. */
async function refusable(submission: Promise<{ readonly callId: string }>): Promise<string | ErrorInfo> {
  try {
    return (await submission).callId
  } catch (error) {
    if (!ToolError.is(error)) throw error
    const { details = {}, ...info } = errorInfoOf(error)
    return Object.keys(details).length === 0 ? info : { ...info, details }
  }
}

/** The end of a call that the service did not take, as a refused call ends in this process. */
function refusedCall(error: ErrorInfo): StreamEvent {
  const callId = randomUUID()
  const result: Result = {
    ...refused(error),
    callId,
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 0, enforced: {} },
    attempts: 0,
  }
  return { kind: 'error', id: 1, callId, error, result }
}

function refused(error: ErrorInfo) {
  const startedAt = new Date().toISOString()
  return { status: codes[error.code].status, output: null, error, startedAt, durationMs: 0 } as const
}
