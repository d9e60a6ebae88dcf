import { statSync } from 'node:fs'
import { ToolError } from '@gantry/contract'

interface Log {
  info(fields: object, message: string): void
  error(fields: object, message: string): void
}

const lookEveryMs = 2_000

/**
 * Reads the configuration again when its file changes or the process gets SIGHUP. A wrong one is told of and not used.
 * Looking at the file, rather than being told of it, misses nothing. Answers the function that stops it.
 */
export function watchConfig(file: string | undefined, reload: () => Promise<void>, log: Log): () => void {
  let seen = stampOf(file)
  let reading = Promise.resolve()

  const again = (): void => {
    reading = reading.then(reload).then(
      () => log.info({ file }, 'configuration read again'),
      (error: unknown) => {
        const reason = ToolError.is(error) ? error.message : String(error)
        log.error({ file, reason }, 'configuration not used: it is wrong')
      },
    )
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
