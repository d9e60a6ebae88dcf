import { chmodSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A new folder for what an engine of a test keeps. It is in the memory that the whole run was given, when there is one:
 * there a copy of a database costs a tenth, and no statement waits for a disk. A process that is killed loses nothing of
 * what it wrote there, just as on a disk.
 */
export function engineFolder(name: string): string {
  return mkdtempSync(join(process.env.GANTRY_TEST_MEMORY ?? tmpdir(), `gantry-${name}-`))
}

const memory = '/dev/shm'
const tmpfs = 0x01_02_19_94
/** More than all engines of a run have at once. */
const leastBytes = 3 * 1024 ** 3

/** A folder in memory for a whole run, whose tests find it by `env`; nothing where there is too little of it. */
export function sharedMemory(): { readonly env: NodeJS.ProcessEnv; remove(): void } {
  if (!isLarge()) return { env: {}, remove: () => undefined }
  removeLeft()
  const folder = mkdtempSync(join(memory, `gantry-run-${process.pid}-`))
  // As `/tmp` is: a server that runs as somebody else has its own folder within, and its keeper removes that.
  chmodSync(folder, 0o1777)
  return { env: { GANTRY_TEST_MEMORY: folder }, remove: () => rmSync(folder, { recursive: true, force: true }) }
}

function isLarge(): boolean {
  try {
    const { type, bavail, bsize } = statfsSync(memory)
    return type === tmpfs && bavail * bsize >= leastBytes
  } catch {
    return false
  }
}

/** What was left by runs that were killed would stay in memory until the machine ends. */
function removeLeft(): void {
  for (const name of readdirSync(memory)) {
    const pid = /^gantry-run-(\d+)-/.exec(name)?.[1]
    if (pid !== undefined && !runs(Number(pid))) rmSync(join(memory, name), { recursive: true, force: true })
  }
}

function runs(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
