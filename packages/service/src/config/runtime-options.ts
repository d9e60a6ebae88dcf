import { resolve } from 'node:path'
import type { Json } from '@gantry/contract'
import type { ExecutorOptions } from '@gantry/tools'

type RuntimeOptions = NonNullable<ExecutorOptions['runtimes']>

/** Where sandboxes live and how strong they are: the file's `runtimes` and `profiles`, the environment over them. */
export function runtimeOptions(
  { runtimes, profiles }: { readonly runtimes?: Json | undefined; readonly profiles?: Json | undefined },
  folder: string,
  { SANDBOX_ROOT: root }: NodeJS.ProcessEnv,
): RuntimeOptions {
  const given = (runtimes ?? {}) as { readonly root?: string }
  const named = root || given.root
  return {
    ...given,
    ...(profiles === undefined ? {} : { profiles }),
    ...(named === undefined ? {} : { root: resolve(folder, named) }),
  } as RuntimeOptions
}
