import { ToolError } from '@gantry/contract'
import type { AdmittedCall, Ending } from './call-store.ts'
import { endedOutcome } from './ended.ts'
import { needText } from './need.ts'

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
