import { readdirSync, type Stats, statSync } from 'node:fs'
import { join } from 'node:path'

const lookEveryMs = 2_000
/** Where something was written so shortly ago is looked later, when all of it is there. */
const settleMs = 500

/**
 * Reads the configuration again when its file or its folder of tools changes, or the process gets SIGHUP. What comes of
 * it `reload` tells. Looking at files, rather than being told of them, misses nothing. Answers the function that stops it.
 */
export function watchConfig(
  file: string | undefined,
  folder: () => string | undefined,
  reload: () => Promise<void>,
): () => void {
  let seen = [stampOf(file), folderStamp(folder())].join('\n')

  const again = (): void => {
    reload().catch(() => undefined)
  }
  const look = (): void => {
    const place = folder()
    const now = [stampOf(file), folderStamp(place)].join('\n')
    if (now === seen || isUnsettled(file, place)) return
    seen = now
    again()
  }
  const timer = setInterval(look, lookEveryMs)
  timer.unref()
  process.on('SIGHUP', again)
  return () => {
    clearInterval(timer)
    process.off('SIGHUP', again)
  }
}

function stampOf(file: string | undefined): string {
  const found = statsOf(file)
  return found === undefined ? 'absent' : `${found.mtimeMs} ${found.size} ${found.ino} ${found.mode}`
}

function folderStamp(folder: string | undefined): string {
  return filesOf(folder)
    .map((file) => `${file} ${stampOf(file)}`)
    .join('\n')
}

function isUnsettled(file: string | undefined, folder: string | undefined): boolean {
  const now = Date.now()
  return [file, ...filesOf(folder)].some((one) => {
    const age = now - (statsOf(one)?.mtimeMs ?? 0)
    return age >= 0 && age < settleMs
  })
}

/** The folder itself, whose rights count too, and what is in it. */
function filesOf(folder: string | undefined): readonly string[] {
  if (folder === undefined) return []
  try {
    return [folder, ...readdirSync(folder).map((name) => join(folder, name))]
  } catch {
    return [folder]
  }
}

function statsOf(file: string | undefined): Stats | undefined {
  try {
    return file === undefined ? undefined : statSync(file, { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}
