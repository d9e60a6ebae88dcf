import { ToolError } from '@gantry/contract'

/** Whether the API said that the object is not there. */
export function isAbsent(error: unknown): boolean {
  return ToolError.is(error) && (error.details as { status?: unknown } | undefined)?.status === 404
}
