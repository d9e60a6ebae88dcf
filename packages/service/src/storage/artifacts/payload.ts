import { text } from 'node:stream/consumers'
import { type JsonObject, ToolError } from '@gantry/contract'
import type { AdmittedCall } from '../calls/call-store.ts'
import type { Artifacts } from './artifact-records.ts'

export interface KeepPayloadOptions {
  readonly artifacts: Pick<Artifacts, 'keep'>
  readonly callId: string
  readonly owner: { readonly tenant: string; readonly principal: string }
  readonly limits: { readonly inlineBytes: number; readonly artifactBytes: number }
  readonly signal?: AbortSignal
}

/** How long a store may take for one payload. */
const storeMs = 60_000

/**
 * Decides where the JSON text of a payload is kept: in the row of its call, or in a file when it is large. The file is
 * there before the call is, so that no call is without its payload; one whose call never comes goes by its retention.
 * - Errors: STORE_UNAVAILABLE; PAYLOAD_TOO_LARGE for more than a file may hold; LIMIT_EXCEEDED beyond the caller's quota.
 */
export async function keepPayload(
  payload: string,
  { artifacts, callId, owner, limits, signal }: KeepPayloadOptions,
): Promise<Pick<AdmittedCall, 'payload' | 'payloadRef' | 'payloadBytes'>> {
  const payloadBytes = Buffer.byteLength(payload)
  if (payloadBytes <= limits.inlineBytes) return { payload, payloadBytes }
  if (payloadBytes > limits.artifactBytes) {
    const details = { bytes: payloadBytes, most: limits.artifactBytes }
    const message = `The payload has ${payloadBytes} bytes; no more than ${limits.artifactBytes} are kept.`
    throw new ToolError('PAYLOAD_TOO_LARGE', message, { details })
  }
  const { tenant, principal } = owner
  const holder = { callId, fence: 0 }
  const about = { tenant, principal, holder, name: 'payload.json', mimeType: 'application/json' }
  const options = { maxBytes: limits.artifactBytes, signal: signal ?? AbortSignal.timeout(storeMs) }
  const { digest } = await artifacts.keep(Buffer.from(payload), about, options)
  return { payloadRef: digest, payloadBytes }
}

/**
 * The arguments of a call, or the chain, as they were admitted.
 * - Errors: STORE_UNAVAILABLE, not to be tried again when the payload is gone or spoilt.
 */
export async function readPayload(
  call: Pick<AdmittedCall, 'payload' | 'payloadRef'>,
  artifacts: Pick<Artifacts, 'content'>,
  signal: AbortSignal,
): Promise<JsonObject> {
  const json = call.payload ?? (await text(await artifacts.content(call.payloadRef ?? '', signal)))
  return JSON.parse(json) as JsonObject
}
