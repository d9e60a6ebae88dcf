import { hash, randomFillSync } from 'node:crypto'
import {
  type ChainResult,
  codes,
  type ErrorInfo,
  type OutcomeClass,
  outcomeClassOf,
  type Result,
  ToolError,
} from '@gantry/contract'
import type { AdmittedCall, Claim, ClaimOptions, Ending, Share } from './call-store.ts'

/** Makes unguessable UUIDs of version 7; they sort by time, so that rows written together are stored together. */
export function createCallIds(now: () => number = Date.now): () => string {
  const pool = Buffer.alloc(10 * 256)
  let used = pool.length
  return () => {
    if (used === pool.length) {
      randomFillSync(pool)
      used = 0
    }
    const random = pool.toString('hex', used, used + 10)
    used += 10
    const time = now().toString(16).padStart(12, '0')
    const variant = ((Number.parseInt(random.charAt(3), 16) & 3) | 8).toString(16)
    return `${time.slice(0, 8)}-${time.slice(8)}-7${random.slice(0, 3)}-${variant}${random.slice(4, 7)}-${random.slice(7, 19)}`
  }
}

/** The time in such an id, in milliseconds since 1970; undefined for any other id. */
export function timeOfCallId(id: string): number | undefined {
  const [, high, low] = /^([0-9a-f]{8})-([0-9a-f]{4})-7/.exec(id) ?? []
  return high === undefined ? undefined : Number.parseInt(`${high}${low}`, 16)
}

/**
 * Whether the key of an ended call can be used again: an open circuit prevented its start, so a repeat under the key is
 * a new call. The key of a broker's message stays used, because the message can be delivered again at any time.
 */
export function freesKey({ result: { error }, plain }: Ending): boolean {
  return error?.code === 'CIRCUIT_OPEN' && error.effect === 'none' && plain?.reply === undefined
}

/** The timeout of a call, limited by its deadline. */
export function timeoutOf({ call, deadlineMs }: Claim): { readonly timeoutMs?: number } {
  const times = [call.timeoutMs, deadlineMs].filter((ms) => ms !== undefined)
  return times.length === 0 ? {} : { timeoutMs: Math.max(1, Math.min(...times)) }
}

/** Fields of a call that spare the store a lookup when it ends; none for a call with a callback or a slot. */
export function plainOf({ tool, identity, key, callback, reply, slot }: AdmittedCall): Pick<Ending, 'plain'> {
  if (callback !== undefined || slot !== undefined) return {}
  const { principal } = identity
  const keyed = key === undefined ? {} : { keyed: true as const }
  const answered = reply === undefined ? {} : { reply: { transport: reply.transport, to: reply.to } }
  return { plain: { tool, principal, ...keyed, ...answered } }
}

/**
 * The idempotency key that a tool passes on: the same for every attempt and for a redriven call, and unique to this
 * caller.
 */
export function downstreamKey({
  identity,
  key,
  callId,
  effectKey,
}: Pick<AdmittedCall, 'identity' | 'key' | 'callId' | 'effectKey'>): string {
  if (effectKey !== undefined) return effectKey
  if (key === undefined) return callId
  return hash('sha256', JSON.stringify([identity.tenant, identity.principal, key]))
}

/**
 * The details of an end in the audit log in addition to status and code, as JSON: why the call was denied, that its tool
 * threw, and where its program ran. Undefined when there is nothing to say, which is so for most calls.
 */
export function endDetails(end: Result | ChainResult, thrownAt?: string, reason?: string): string | undefined {
  const runtime = 'runtime' in end ? end.runtime : undefined
  return detailsText({ reason, outcome: outcomeClassOf(end), runtime, thrownAt })
}

interface Details {
  readonly reason?: string | undefined
  readonly outcome: OutcomeClass
  readonly runtime?: Result['runtime'] | undefined
  readonly thrownAt?: string | undefined
}

const longestPlace = 500

/** The outcome is part of the details only when the status does not imply it. */
export function detailsText({ reason, outcome, runtime, thrownAt }: Details): string | undefined {
  const threw = outcome === 'exception' ? outcome : undefined
  if (reason === undefined && threw === undefined && runtime === undefined) return undefined
  return JSON.stringify({ reason, outcome: threw, runtime, thrownAt: thrownAt?.slice(0, longestPlace) })
}

/** The share of a tenant: its own, or that of `*`. */
export function shareOf(shares: ClaimOptions['shares'], tenant: string): Share {
  if (shares === undefined) return {}
  return (Object.hasOwn(shares, tenant) ? shares[tenant] : shares['*']) ?? {}
}

/** A tool that a call needs on its worker, with the digest of the definition that it was admitted for. */
export interface NeededTool {
  readonly tool: string
  /** Absent when any definition of the tool is accepted, as for steps of a chain. */
  readonly digest?: string
}

/** A needed tool as one text, by which workers find the calls that wait for it. */
export function needOf({ tool, digest }: NeededTool): string {
  return digest === undefined ? tool : `${tool} ${digest}`
}

export function readNeed(need: string): NeededTool {
  const space = need.indexOf(' ')
  return space < 0 ? { tool: need } : { tool: need.slice(0, space), digest: need.slice(space + 1) }
}

/** The label that a worker needs to claim a call that waits for a tool. */
export function needLabel(need: string): string {
  return `needs:${need}`
}

/** A needed tool for messages: the exact version and a prefix of the definition's digest. */
export function needText(need: string): string {
  const { tool, digest } = readNeed(need)
  return digest === undefined ? tool : `${tool} (definition ${digest.slice(0, 12)})`
}

/** An outcome that the service makes itself. */
export function endedOutcome(
  call: Pick<AdmittedCall, 'callId' | 'tool'> & { readonly kind: 'call' },
  failure: ToolError,
  attempts: number,
  at: Date,
): Result
export function endedOutcome(
  call: Pick<AdmittedCall, 'callId' | 'kind' | 'tool'>,
  failure: ToolError,
  attempts: number,
  at: Date,
): Result | ChainResult
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

/** A call that the store itself ends. No worker ran it, so its effect is `none`. */
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
 * Whether an outcome means that an approval is pending, so that the call has not ended. A tool cannot produce it,
 * because its errors come from another stage.
 */
export function isPending<T extends { readonly error?: ErrorInfo }>(
  outcome: T,
): outcome is T & { readonly error: ErrorInfo & { readonly details: { readonly expiresMs: number } } } {
  const { error } = outcome
  const asked = error?.code === 'APPROVAL_REQUIRED' && error.stage === 'authorize'
  return asked && typeof error.details?.expiresMs === 'number'
}

/** A symbol, which JSON omits and no tool can set. */
const waiting = Symbol('waiting')

/** Marks the outcome of an attempt at a chain or a program as not final: one of its calls waits to start. */
export function asWaiting<T extends object>(outcome: T): T {
  return { ...outcome, [waiting]: true }
}

export function isMarkedWaiting(outcome: object): boolean {
  return waiting in outcome
}
