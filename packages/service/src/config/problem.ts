import { type Issue, ToolError } from '@gantry/contract'

/** A configuration that cannot be used, with all that is known to be wrong with it. */
export function configError(
  file: string | undefined,
  message: string,
  issues: readonly Issue[],
  cause?: unknown,
): ToolError {
  const details = { ...(file === undefined ? {} : { file }), ...(issues.length === 0 ? {} : { issues }) }
  return new ToolError('CONFIG_INVALID', message, { details, ...(cause === undefined ? {} : { cause }) })
}
