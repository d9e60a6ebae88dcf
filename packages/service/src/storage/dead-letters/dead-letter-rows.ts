import type { DeadLetter, EffectClass, Identity } from '@gantry/contract'
import type { RedactionMark } from '@gantry/core/internal/json/redact'
import type { AdmittedCall } from '../calls/call-store.ts'
import { downstreamKey } from '../calls/downstream-key.ts'
import { shownPayload } from './dead-letter-payload.ts'

/** A dead letter as it is read; of the call only when one letter is asked for. */
export type LetterRow = {
  id: string
  call_id: string | null
  source: string
  reason: string
  code: string
  tool: string | null
  deliveries: number
  created_at: Date
  /** When it was created, in the form of a cursor. */
  place: string
  redriven_at: Date | null
  redriven_by: string | null
  redriven_as: string | null
  discarded_at: Date | null
  discarded_by: string | null
  payload?: string | null
  call?: CallRow | null
}

/** The call of a letter, as the database writes it as JSON. */
type CallRow = {
  call_id: string
  idem_key: string | null
  effect_key: string | null
  kind: AdmittedCall['kind']
  principal: string
  identity: string
  fingerprint: string
  tool: string
  effect: EffectClass
  payload: string | null
  payload_ref: string | null
  payload_bytes: number
  timeout_ms: number | null
  callback: string | null
  reply: string | null
  trace: string | null
  origin: string | null
}

/** A letter as others see it; with a mark for what is hidden, also what was asked for. */
export function letterOf(row: LetterRow, mark?: RedactionMark): DeadLetter {
  const payload = row.payload ?? row.call?.payload ?? undefined
  return {
    id: row.id,
    source: row.source,
    reason: row.reason,
    code: row.code,
    deliveries: row.deliveries,
    createdAt: row.created_at.toISOString(),
    ...(row.call_id === null ? {} : { callId: row.call_id }),
    ...(row.tool === null ? {} : { tool: row.tool }),
    ...(payload === undefined || mark === undefined ? {} : { payload: shownPayload(payload, mark) }),
    ...(row.redriven_at === null
      ? {}
      : { redriven: { at: row.redriven_at.toISOString(), by: `${row.redriven_by}`, callId: `${row.redriven_as}` } }),
    ...(row.discarded_at === null
      ? {}
      : { discarded: { at: row.discarded_at.toISOString(), by: `${row.discarded_by}` } }),
  }
}

/**
 * What is handed in again: as it was, but not later, sooner or until some time, and with whatever definition the tool has
 * now, since it was probably mended.
 */
export function callOf({ call }: LetterRow): (Omit<AdmittedCall, 'callId'> & { effectKey: string }) | undefined {
  if (call === null || call === undefined) return undefined
  const { kind, fingerprint, tool, effect, payload, payload_ref, timeout_ms, callback, reply, trace, origin } = call
  const identity: Identity = JSON.parse(call.identity)
  return {
    effectKey: effectKeyOf(call, identity),
    kind,
    identity,
    fingerprint,
    tool,
    effect,
    payloadBytes: call.payload_bytes,
    ...(payload === null ? {} : { payload }),
    ...(payload_ref === null ? {} : { payloadRef: payload_ref }),
    ...(timeout_ms === null ? {} : { timeoutMs: timeout_ms }),
    ...(callback === null ? {} : { callback }),
    ...(reply === null ? {} : { reply: JSON.parse(reply) }),
    ...(trace === null ? {} : { trace }),
    ...(origin === null ? {} : { origin: JSON.parse(origin) }),
  }
}

/** The repeat is the same work: its tool, or those that a chain or a program calls, know it under the same key. */
function effectKeyOf({ kind, call_id: callId, idem_key, effect_key }: CallRow, identity: Identity): string {
  if (effect_key !== null) return effect_key
  return kind !== 'call' ? callId : downstreamKey({ identity, callId, ...(idem_key === null ? {} : { key: idem_key }) })
}

/** Whether a text from outside can be the id of a letter. */
export function isLetterId(id: string): boolean {
  return /^[\x21-\x7e]{1,200}$/.test(id)
}
