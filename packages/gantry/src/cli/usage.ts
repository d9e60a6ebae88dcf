import { type ErrorDetails, ToolError } from '@gantry/contract'

/** A command line that cannot be run as it stands. `path` names the option or operand. */
export function usageError(path: string, message: string, details: ErrorDetails = {}): ToolError {
  return new ToolError('INPUT_INVALID', message, {
    stage: 'admit',
    details: { ...details, issues: [{ path, message }] },
  })
}

/** The same, with the nearest names that exist; core is loaded only now, because most command lines are right. */
export async function unknownName(
  path: string,
  message: string,
  wanted: string,
  names: Iterable<string>,
): Promise<ToolError> {
  const { nearest } = await import('@gantry/core/internal/search/near')
  const near = nearest(wanted, names)
  const hint = near.length === 0 ? '' : ` Did you mean ${near.join(' or ')}?`
  return usageError(path, `${message}${hint}`, near.length === 0 ? {} : { nearest: near })
}
