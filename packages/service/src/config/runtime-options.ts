import { resolve } from 'node:path'
import type { Json } from '@gantry/contract'
import type { ExecutorOptions } from '@gantry/core'

type RuntimeOptions = NonNullable<ExecutorOptions['runtimes']>

/**
 * Where sandboxes live and how strong they are: the file's `runtimes` and `profiles`, the environment over them.
 * One command runs one tool, so nothing is started ahead unless the file asks for it.
 */
export function runtimeOptions(
  { runtimes, profiles }: { readonly runtimes?: Json | undefined; readonly profiles?: Json | undefined },
  folder: string,
  { SANDBOX_ROOT: root }: NodeJS.ProcessEnv,
): RuntimeOptions {
  const given = { pool: false, ...(runtimes as object | undefined) } as { readonly root?: string }
  const named = root || given.root
  return {
    ...given,
    ...(profiles === undefined ? {} : { profiles }),
    ...(named === undefined ? {} : { root: resolve(folder, named) }),
  } as RuntimeOptions
}
