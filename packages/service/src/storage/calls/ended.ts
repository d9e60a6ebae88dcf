import { type ChainResult, codes, type ErrorInfo, type Result, type ToolError } from '@gantry/contract'
import type { AdmittedCall } from './call-store.ts'

/** The outcome of a call that no tool gave. */
export function endedOutcome(
  { callId, kind, tool }: Pick<AdmittedCall, 'callId' | 'kind' | 'tool'>,
  failure: ToolError,
  attempts: number,
  at: Date,
): Result | ChainResult {
  const { code, message, stage, retryable, effect } = failure
  const error: ErrorInfo = { code, message, stage, retryable, effect }
  const { status } = codes[code]
  const ended = { status, output: null, error, startedAt: at.toISOString(), durationMs: 0 }
  if (kind === 'chain') return { chainId: callId, steps: [], ...ended }
  return {
    callId,
    tool: { id: tool.split(':').slice(0, 2).join(':'), version: tool.split(':')[2] ?? '' },
    content: [],
    warnings: [],
    artifacts: [],
    effects: [],
    usage: { wallMs: 0, enforced: {} },
    attempts,
    ...ended,
  }
}
