import { type ChainResult, codes, type ErrorInfo, type Result, ToolError } from '@gantry/contract'
import type { AdmittedCall, Ending } from './call-store.ts'
import { needText } from './needed-tools.ts'

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

const messages = {
  TIMEOUT: 'The deadline passed before the call ran.',
  CANCELLED: 'The call was cancelled before it ran.',
} as const

/** A call that the store itself ends; nobody ran it, so it changed nothing. */
export interface UnrunCall extends Pick<AdmittedCall, 'callId' | 'kind' | 'tool'> {
  readonly fence: number
  readonly deliveries: number
  /** The tool that no worker had. */
  readonly needs?: string | null | undefined
}

export function unrunEnding(call: UnrunCall, code: keyof typeof messages, at: Date): Ending {
  const lacking = call.needs === undefined || call.needs === null ? '' : ` No worker had ${needText(call.needs)}.`
  const failure = new ToolError(code, `${messages[code]}${lacking}`, { effect: 'none' })
  const result = endedOutcome(call, failure, call.deliveries, at)
  const text = JSON.stringify(result)
  return { callId: call.callId, fence: call.fence, result, text, bytes: Buffer.byteLength(text) }
}

/**
 * Whether an outcome only says that a person must decide first, so that it is no end. A tool cannot give such an outcome:
 * what it throws comes from another stage.
 */
export function isPending<T extends { readonly error?: ErrorInfo }>(
  outcome: T,
): outcome is T & { readonly error: ErrorInfo & { readonly details: { readonly expiresMs: number } } } {
  const { error } = outcome
  const asked = error?.code === 'APPROVAL_REQUIRED' && error.stage === 'authorize'
  return asked && typeof error.details?.expiresMs === 'number'
}

/** A key that JSON leaves out and that no tool can name. */
const waiting = Symbol('waiting')

/** Marks what came of an attempt at a chain or a program as no end: one of its calls waits to begin. */
export function asWaiting<T extends object>(outcome: T): T {
  return { ...outcome, [waiting]: true }
}

export function isMarkedWaiting(outcome: object): boolean {
  return waiting in outcome
}
