import { chmodSync, mkdtempSync, readdirSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/**
 * A new data folder for an engine of a test. It is in the in-memory folder of the test run, if there is one:
 * there a copy of a database costs a tenth, and no statement waits for a disk. A killed process loses none of its
 * writes, just as on a disk.
 */
export function engineFolder(name: string): string {
  return mkdtempSync(join(process.env.GANTRY_TEST_MEMORY ?? tmpdir(), `gantry-${name}-`))
}

const memory = '/dev/shm'
const tmpfs = 0x01_02_19_94
/** More than all engines of a run use at once. */
const leastBytes = 3 * 1024 ** 3

/** An in-memory folder for a whole run, whose tests find it by `env`; undefined where memory is too small. */
export function sharedMemory(): { readonly env: NodeJS.ProcessEnv; remove(): void } {
  if (!isLarge()) return { env: {}, remove: () => undefined }
  removeLeft()
  const folder = mkdtempSync(join(memory, `gantry-run-${process.pid}-`))
  // Mode of `/tmp`: a server that runs as another user has its own folder inside, and its keeper removes that.
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

/** Removes leftovers of killed runs, which would stay in memory until the machine restarts. */
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
