import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const start = 'gantry-check-'
/** Many times what a check may take, so that what is older is nobody's any more. */
const forgottenMs = 600_000

/** Makes a folder for one check, and removes those that were left when a whole machine or container went down. */
export async function makeFolder(): Promise<string> {
  const above = tmpdir()
  const left = (await readdir(above)).filter((name) => name.startsWith(start))
  await Promise.all(left.map((name) => removeForgotten(join(above, name))))
  return mkdtemp(join(above, start))
}

/** Only our own: another's folder can be made into something else while it is removed. */
async function removeForgotten(folder: string): Promise<void> {
  try {
    const { uid, mtimeMs } = await lstat(folder)
    if (uid !== process.getuid?.() || Date.now() - mtimeMs < forgottenMs) return
    await rm(folder, { recursive: true, force: true })
  } catch {
    // Somebody else was faster, or the next one is luckier; no check fails by it.
  }
}
