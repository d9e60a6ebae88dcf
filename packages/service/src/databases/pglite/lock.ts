import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ToolError } from '@gantry/contract'

/**
 * Holds a folder for this process alone until the function it answers is called, or until the process is gone, however
 * it went: it is a lock of the system's, had through SQLite, because Node itself has none.
 * Rejected with SERVICE_UNAVAILABLE, naming the holder, when somebody has it, this process included.
 */
export function lockFolder(folder: string): () => void {
  const holder = join(folder, 'lock.pid')
  const lock = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
  try {
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    throw inUse(folder, holder, error)
  }
  writeFileSync(holder, `${process.pid} on ${hostname()}`, { mode: 0o600 })
  return () => {
    rmSync(holder, { force: true })
    lock.close()
  }
}

function inUse(folder: string, holder: string, cause: unknown): ToolError {
  const message = `${folder} is in use by process ${readHolder(holder)}. Stop that one first, or choose another folder.`
  return new ToolError('SERVICE_UNAVAILABLE', message, { cause, stage: 'define' })
}

function readHolder(file: string): string {
  try {
    return readFileSync(file, 'utf8').slice(0, 100)
  } catch {
    return 'unknown'
  }
}
