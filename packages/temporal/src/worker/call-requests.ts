import { createHash } from 'node:crypto'
import { codes, type ErrorInfo, type Json, type Result } from '@gantry/contract'
import type { Executor, InnerOutcome } from '@gantry/core'
import type { CallRequest } from '../protocol/work.ts'

/** Beyond the timeout of a call, for its queue in the worker and its audit. */
const graceMs = 60_000
const usualTimeoutMs = 30_000

/** A call as an activity: its effect class decides whether it is repeated when its worker is lost. */
export function callRequest(
  { catalog }: Pick<Executor, 'catalog'>,
  call: {
    readonly key: string
    readonly fingerprint: string
    readonly tool: string
    readonly args: Json
    readonly timeoutMs?: number | undefined
  },
): CallRequest {
  const { key, fingerprint, tool, args, timeoutMs } = call
  const found = toolOf(catalog, tool)
  const longest = timeoutMs ?? found?.timeoutMs ?? usualTimeoutMs
  return {
    kind: 'call',
    key,
    fingerprint,
    tool,
    args,
    // A tool that this worker does not know may have any effect.
    effect: found?.effect ?? 'once',
    runMs: longest + graceMs,
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
  }
}

function toolOf(catalog: Executor['catalog'], id: string) {
  try {
    return catalog.find(id).tool
  } catch {
    return undefined
  }
}

/** Of a call in a chain; of a request of a program the gateway makes one. */
export function fingerprintOf(tool: string, args: Json): string {
  return createHash('sha256')
    .update(JSON.stringify([tool, args]))
    .digest('hex')
    .slice(0, 12)
}

/** The same in every attempt, so that the tool recognises a repeat. */
export function keyOf(id: string, key: string): string {
  return createHash('sha256').update(`${id}/${key}`).digest('hex')
}

/** The Result of a call that has none, because its worker was lost. */
export function resultOf(outcome: InnerOutcome, callId: string, tool: string, atMs: number): Result {
  if (outcome.kind === 'result') return outcome.result
  const error: ErrorInfo =
    outcome.kind === 'error'
      ? outcome.error
      : {
          code: 'INTERNAL',
          message: 'The journal has no result.',
          stage: 'execute',
          retryable: false,
          effect: 'possible',
        }
  return {
    callId,
    tool: { id: tool.split(':').slice(0, 2).join(':'), version: tool.split(':')[2] ?? '' },
    status: codes[error.code].status,
    output: null,
    content: [],
    error,
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 0, enforced: {} },
    attempts: 1,
    startedAt: new Date(atMs).toISOString(),
    durationMs: 0,
  }
}
