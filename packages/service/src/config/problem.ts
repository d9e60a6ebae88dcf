import { codes, type Issue, ToolError } from '@gantry/contract'

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

/** A value of a configuration that throws when it is looked at, as a getter can. */
export function throwingValue(file: string, path: string, cause: unknown): ToolError {
  return configError(
    file,
    `The configuration ${file} cannot be read.`,
    [{ path, message: 'throws when it is read' }],
    cause,
  )
}

/** Reads parts of a configuration file: what they throw is the file's fault, unless it is an error of ours. */
export function reading<T>(file: string | undefined, read: () => T): T {
  try {
    return read()
  } catch (thrown) {
    if (file === undefined || isToolError(thrown)) throw thrown
    throw configError(file, `The configuration ${file} cannot be read: something in it throws.`, [], thrown)
  }
}

/** The same for what takes its time. */
export async function readingLater<T>(file: string, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (thrown) {
    return reading(file, () => {
      throw thrown
    })
  }
}

/** Whether something thrown is an error of ours; one that only pretends to be, or throws when it is asked, is not. */
export function isToolError(thrown: unknown): thrown is ToolError {
  try {
    return ToolError.is(thrown) && Object.hasOwn(codes, thrown.code) && typeof thrown.message === 'string'
  } catch {
    return false
  }
}
