import { ToolError } from '@gantry/contract'

/** The refusal of a message that wants its answer sent where it must not go; the place itself is not repeated. */
export function foreignAddress(path: string): ToolError {
  const message = 'is not a place where answers may be sent'
  const details = { issues: [{ path, message }] }
  return new ToolError('DENIED', `The message cannot be taken: ${path} ${message}.`, { details, stage: 'admit' })
}
