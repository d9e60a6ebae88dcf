import { createHash, randomBytes } from 'node:crypto'
import { readdir, rm, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { join } from 'node:path'

const dayMs = 86_400_000
const pattern = /^([0-9a-f]{8})-(\d{1,10})-[0-9a-f]{16}$/

/** The name of this machine in a name of a file; a folder may be shared, and numbers of processes mean something on one machine only. */
function machine(): string {
  return createHash('sha256').update(hostname()).digest('hex').slice(0, 8)
}

/** A name for a file that is being written, which says whose it is. */
export function draftName(): string {
  return `${machine()}-${process.pid}-${randomBytes(8).toString('hex')}`
}

/**
 * Removes the drafts of processes that are gone: those of this machine whose process is not there or is younger than they
 * are, and all that nobody has written to for a day. What cannot be looked at or removed stays for the next time.
 */
export async function removeLeftDrafts(folder: string): Promise<void> {
  const names = await readdir(folder)
  await Promise.all(names.map((name) => removeIfLeft(join(folder, name), name).catch(() => undefined)))
}

async function removeIfLeft(path: string, name: string): Promise<void> {
  const [, home, pid] = pattern.exec(name) ?? []
  if (home === undefined) return
  const { mtimeMs } = await stat(path)
  const mine = home === machine()
  const processStart = Date.now() - process.uptime() * 1_000
  const before = Number(pid) === process.pid && mtimeMs < processStart
  if ((mine && (before || !isAlive(Number(pid)))) || mtimeMs < Date.now() - dayMs) await rm(path, { force: true })
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
