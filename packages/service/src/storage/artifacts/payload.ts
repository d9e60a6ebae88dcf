import { text } from 'node:stream/consumers'
import { type JsonObject, type Result, ToolError } from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { AdmittedCall } from '../calls/call-store.ts'
import type { Artifacts } from './artifact-records.ts'

export interface KeepPayloadOptions {
  readonly artifacts: Pick<Artifacts, 'keep'>
  readonly callId: string
  readonly owner: { readonly tenant: string; readonly principal: string }
  readonly limits: { readonly inlineBytes: number; readonly artifactBytes: number }
  readonly signal?: AbortSignal
}

/** Time limit of the artifact store for one payload. */
const storeMs = 60_000

/**
 * Stores the JSON text of a payload: in the row of its call, or as an artifact when it is large. The artifact is
 * written before the call, so that no call is without its payload; retention removes one whose call is never submitted.
 * - Errors: STORE_UNAVAILABLE; PAYLOAD_TOO_LARGE above the limit of artifacts; LIMIT_EXCEEDED over the caller's quota.
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
 * Reads the arguments of a call, or the chain, as they were admitted.
 * - Errors: STORE_UNAVAILABLE, not retryable when the payload is missing or corrupted.
 */
export async function readPayload(
  call: Pick<AdmittedCall, 'payload' | 'payloadRef'>,
  artifacts: Pick<Artifacts, 'content'>,
  signal: AbortSignal,
): Promise<JsonObject> {
  const { payload, payloadRef } = call
  if (payload !== undefined) return JSON.parse(payload)
  if (payloadRef === undefined) throw spent()
  return JSON.parse(await text(await artifacts.content(payloadRef, signal)))
}

function spent(): ToolError {
  const message = 'The arguments of the call were removed when it ended, because they are the file that it stored.'
  return new ToolError('INPUT_INVALID', message)
}

/**
 * Removes the payload artifact of an ended call whose tool only stores its arguments as a file: the content is in that
 * file, or nothing was done and the caller still has it. Other calls keep theirs for replays.
 */
export async function releasePayload(
  { callId, kind, tool, identity, payloadRef }: AdmittedCall,
  { status, error }: Pick<Result, 'status' | 'error'>,
  { executor, artifacts }: { readonly executor: Pick<Executor, 'find'>; readonly artifacts: Pick<Artifacts, 'spend'> },
): Promise<void> {
  if (payloadRef === undefined || kind !== 'call' || (status !== 'ok' && error?.effect !== 'none')) return
  try {
    const { backends } = executor.find(tool, { identity }).tool
    if (backends.every((binding) => binding.kind === 'files' && binding.action === 'put')) await artifacts.spend(callId)
  } catch {
    // Retention removes it with the call.
  }
}
