import { statSync } from 'node:fs'

const lookEveryMs = 2_000

/**
 * Reads the configuration again when its file changes or the process gets SIGHUP. What comes of it `reload` tells.
 * Looking at the file, rather than being told of it, misses nothing. Answers the function that stops it.
 */
export function watchConfig(file: string | undefined, reload: () => Promise<void>): () => void {
  let seen = stampOf(file)

  const again = (): void => {
    reload().catch(() => undefined)
  }
  const look = (): void => {
    const now = stampOf(file)
    if (now === seen) return
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
  try {
    const { mtimeMs, size, ino } = statSync(file ?? '')
    return `${mtimeMs} ${size} ${ino}`
  } catch {
    return 'absent'
  }
}
