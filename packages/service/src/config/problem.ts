import { codes, type Issue, ToolError } from '@gantry/contract'

/** The CONFIG_INVALID of a configuration, with all its issues. */
export function configError(
  file: string | undefined,
  message: string,
  issues: readonly Issue[],
  cause?: unknown,
): ToolError {
  const details = { ...(file === undefined ? {} : { file }), ...(issues.length === 0 ? {} : { issues }) }
  return new ToolError('CONFIG_INVALID', message, { details, ...(cause === undefined ? {} : { cause }) })
}

/** The error of a value whose getter throws. */
export function throwingValue(file: string, path: string, cause: unknown): ToolError {
  return configError(
    file,
    `The configuration ${file} cannot be read.`,
    [{ path, message: 'throws when it is read' }],
    cause,
  )
}

/** Reads parts of a configuration file. Anything thrown becomes CONFIG_INVALID of the file, except a ToolError. */
export function reading<T>(file: string | undefined, read: () => T): T {
  try {
    return read()
  } catch (thrown) {
    if (file === undefined || isToolError(thrown)) throw thrown
    throw configError(file, `The configuration ${file} cannot be read: a value in it throws.`, [], thrown)
  }
}

/** As `reading`, for asynchronous reads. */
export async function readingLater<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (thrown) {
    return reading(file, () => {
      throw thrown
    })
  }
}

/** Whether a thrown value is a genuine ToolError; false for an imitation or one whose getters throw. */
export function isToolError(thrown: unknown): thrown is ToolError {
  try {
    return ToolError.is(thrown) && Object.hasOwn(codes, thrown.code) && typeof thrown.message === 'string'
  } catch {
    return false
  }
}
