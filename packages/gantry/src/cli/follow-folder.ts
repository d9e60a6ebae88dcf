import type { Executor } from '@gantry/core'
import type { LoadedConfig } from '@gantry/service/internal/config/config'
import { watchConfig } from '@gantry/service/internal/config/watch-config'

/**
 * Keeps the tools that an executor has of the folder of tools those that are in it; all else stays as it was made. What
 * cannot be read is told, and what is in use then stays. Answers the function that ends it.
 */
export function followFolder(
  gantry: Pick<Executor, 'update' | 'unregister'>,
  loaded: LoadedConfig,
  again: () => Promise<LoadedConfig>,
  tell: (text: string) => void,
): () => void {
  const path = loaded.toolsFolder?.path
  if (path === undefined) return () => undefined
  let before = idsOf(loaded)
  let last: Promise<void> = Promise.resolve()
  const follow = async (): Promise<void> => {
    const next = await again()
    for (const tool of next.toolsFolder?.tools ?? []) gantry.update(tool)
    const now = idsOf(next)
    for (const id of before) if (!now.has(id)) gantry.unregister(id)
    before = now
    for (const warning of next.warnings) tell(warning)
  }
  // One at a time, so that what was read first cannot come to be used last.
  const inTurn = (): Promise<void> => {
    last = last.then(follow).catch((error: unknown) => tell(error instanceof Error ? error.message : String(error)))
    return last
  }
  return watchConfig(undefined, () => path, inTurn)
}

function idsOf({ toolsFolder }: LoadedConfig): ReadonlySet<string> {
  return new Set(toolsFolder?.loaded.flatMap(({ tools }) => tools))
}
