import { ToolError } from '@gantry/contract'
import type { AdmittedCall, Ending } from './call-store.ts'
import { endedOutcome } from './ended.ts'

const messages = {
  TIMEOUT: 'The deadline passed before the call ran.',
  CANCELLED: 'The call was cancelled before it ran.',
} as const

/** A call that the store itself ends; nobody ran it, so it changed nothing. */
export interface UnrunCall extends Pick<AdmittedCall, 'callId' | 'kind' | 'tool'> {
  readonly fence: number
  readonly deliveries: number
}

export function unrunEnding(call: UnrunCall, code: keyof typeof messages, at: Date): Ending {
  const failure = new ToolError(code, messages[code], { effect: 'none' })
  const result = endedOutcome(call, failure, call.deliveries, at)
  const text = JSON.stringify(result)
  return { callId: call.callId, fence: call.fence, result, text, bytes: Buffer.byteLength(text) }
}
