import { readdirSync, type Stats, statSync } from 'node:fs'
import { join } from 'node:path'
import { type Issue, ToolError } from '@gantry/contract'

/** Receives the outcome of each reload; the event bus of the service is one. */
export interface ReloadEvents {
  emit(name: 'config:read', event: Record<string, never>): void
  emit(
    name: 'config:refused',
    event: { readonly reason: string; readonly issues: readonly Pick<Issue, 'path' | 'message'>[] },
  ): void
}

const mostIssues = 20

/**
 * Reloads the configuration when its file changed, a signal arrived, or a gateway or another process requests it.
 * Reloads run one at a time, in the order of their requests, so that an older configuration never replaces a newer one.
 * An invalid configuration is reported, not used, and rejects; the one in use stays.
 */
export function createReload(read: () => Promise<void>, events: ReloadEvents): () => Promise<void> {
  let last: Promise<void> = Promise.resolve()
  const tryIt = async (): Promise<void> => {
    try {
      await read()
    } catch (error) {
      events.emit('config:refused', { reason: reasonOf(error), issues: issuesOf(error) })
      throw error
    }
    events.emit('config:read', {})
  }
  return () => {
    const mine = last.then(tryIt)
    last = mine.catch(() => undefined)
    return mine
  }
}

/** An error of the host's own module may contain anything, but its author needs the text. */
function reasonOf(error: unknown): string {
  return ToolError.is(error) || error instanceof Error ? error.message : String(error)
}

function issuesOf(error: unknown): readonly Pick<Issue, 'path' | 'message'>[] {
  const issues = ToolError.is(error) ? (error.details?.issues ?? []) : []
  return issues.slice(0, mostIssues).map(({ path, message }) => ({ path, message }))
}

/** A reload refuses a missing file, deleted or being replaced, because without it the policy would be removed. */
export function refuseOtherFile(file: string | undefined, next: string | undefined): void {
  if (file === undefined || file === next) return
  const instead = next === undefined ? '' : `, and ${next} was found in its place`
  throw new ToolError(
    'CONFIG_INVALID',
    `The configuration ${file} no longer exists${instead}; restore it, or restart the service without it.`,
  )
}

const lookEveryMs = 2_000
/** A file that changed more recently is read later, because its writer may not be finished. */
const settleMs = 500

/**
 * Calls `reload` when the configuration file or the folder of tools changes, or the process gets SIGHUP. The files are
 * polled, because file notifications can be lost. Returns the function that stops it.
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

/** The folder, whose permissions matter too, and its files. */
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
