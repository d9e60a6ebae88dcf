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
  const { payload, payloadRef } = call
  if (payload !== undefined) return JSON.parse(payload) as JsonObject
  if (payloadRef === undefined) throw spent()
  return JSON.parse(await text(await artifacts.content(payloadRef, signal))) as JsonObject
}

function spent(): ToolError {
  const message = 'The arguments of the call were removed when it ended, because they are the file that it stored.'
  return new ToolError('INPUT_INVALID', message)
}

/**
 * Removes the large arguments of a call that ended, of a tool that does nothing but store them as a file: the file holds
 * their content, or nothing was done and the caller still has it. Others keep theirs, because a replay reads them.
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
    // They go with their call then.
  }
}
