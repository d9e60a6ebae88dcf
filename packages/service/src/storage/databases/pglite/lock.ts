import { createHash } from 'node:crypto'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { ToolError } from '@gantry/contract'

/**
 * Holds a folder for this process alone until the function it answers is called, or until the process is gone, however
 * it went. Two locks of the system's hold it. One is on a file, had through SQLite because Node itself has none: it is
 * seen by whoever shares the folder, but it is gone when anything in this process opens and closes that file. The other
 * is a name that nobody can take away, but only processes of the same machine and network see it, and only on Linux.
 * Rejects with SERVICE_UNAVAILABLE, naming the holder, when somebody has it, this process included.
 */
export async function lockFolder(folder: string): Promise<() => void> {
  const holder = join(folder, 'lock.pid')
  const unname = await takeName(folder).catch((error: unknown) => {
    throw inUse(folder, holder, error)
  })
  const lock = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
  try {
    lock.exec('begin exclusive')
  } catch (error) {
    lock.close()
    unname()
    throw inUse(folder, holder, error)
  }
  writeFileSync(holder, `${process.pid} on ${hostname()}`, { mode: 0o600 })
  return () => {
    rmSync(holder, { force: true })
    lock.close()
    unname()
  }
}

/** An abstract socket, named by what the folder is rather than what it is called; nobody is served on it. */
function takeName(folder: string): Promise<() => void> {
  if (process.platform !== 'linux') return Promise.resolve(() => undefined)
  const { dev, ino } = statSync(folder, { bigint: true })
  const name = createHash('sha256').update(`${dev} ${ino}`).digest('hex').slice(0, 32)
  const server = createServer((socket) => socket.destroy())
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(`\0gantry-${name}`, () => {
      server.unref()
      resolve(() => server.close())
    })
  })
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
