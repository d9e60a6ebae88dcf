import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'

/**
 * Builds or downloads an engine once per user, outside the repository, and returns its folder. `build` fills an empty
 * temporary folder, which is renamed atomically; so a failed build leaves nothing, and of two concurrent builds both
 * use the first to finish.
 */
export async function cachedEngine(
  name: string,
  version: string,
  build: (folder: string) => Promise<void>,
): Promise<string> {
  const home = cacheFolder()
  const folder = join(home, `${name}-${version}`)
  if (existsSync(folder)) return folder
  mkdirSync(home, { recursive: true })
  removeDrafts(home)
  const draft = mkdtempSync(join(home, 'draft-'))
  console.error(`gantry: making ${name} ${version} in ${folder}, once …`)
  try {
    await build(draft)
    renameSync(draft, folder)
  } catch (error) {
    rmSync(draft, { recursive: true, force: true })
    if (!existsSync(folder)) throw error
  }
  return folder
}

function cacheFolder(): string {
  const named = process.env.XDG_CACHE_HOME ?? ''
  return join(isAbsolute(named) ? named : join(homedir(), '.cache'), 'gantry', 'engines')
}

/** Leftovers of killed processes; no live process takes an hour. */
function removeDrafts(home: string): void {
  const old = Date.now() - 3_600_000
  for (const name of readdirSync(home).filter((entry) => entry.startsWith('draft-'))) {
    const stat = statSync(join(home, name), { throwIfNoEntry: false })
    if (stat !== undefined && stat.mtimeMs < old) rmSync(join(home, name), { recursive: true, force: true })
  }
}
