import { constants } from 'node:fs'
import { chmod, copyFile, link, lstat, mkdir, readdir, readlink, realpath, stat } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
import { codeOf } from '@gantry/core/internal/files/private-file'

/** The access that another user needs to the last component of a path. */
export type Reach = 'pass' | 'read' | 'execute'

const bitsFor: { readonly [Want in Reach]: number } = { pass: 0o001, read: 0o004, execute: 0o005 }
const mostLinks = 40

/**
 * Returns the first component of a path, with links followed, that another user cannot access; undefined when all are
 * accessible. Every component counts: a program of mode 0755 in `/root` is inaccessible. Rejects with ENOENT.
 */
export async function unreachable(path: string, want: Reach, links = 0): Promise<string | undefined> {
  if (links > mostLinks) return path
  const parts = resolve(path).split('/').filter(Boolean)
  let at = '/'
  for (const [index, part] of parts.entries()) {
    at = join(at, part)
    const stats = await lstat(at)
    if (stats.isSymbolicLink()) {
      const target = resolve(dirname(at), await readlink(at))
      return unreachable(join(target, ...parts.slice(index + 1)), want, links + 1)
    }
    const bits = (index === parts.length - 1 ? bitsFor[want] : 0) | (stats.isDirectory() ? bitsFor.pass : 0)
    if ((stats.mode & bits) !== bits) return at
  }
  return undefined
}

/**
 * Returns a path under which sandboxes can access a program or folder: its own when it is accessible, else `copy`, which
 * is created. A hard link serves as well as a copy and costs nothing.
 */
export async function reachable(path: string, copy: string): Promise<string> {
  const real = await realpath(path)
  const stats = await stat(real)
  if ((await unreachable(real, stats.isDirectory() ? 'read' : 'execute')) === undefined) return real
  if (stats.isDirectory()) await copyFolder(real, copy)
  else await copyFileOpen(real, copy, 0o555)
  return copy
}

/** Copies files and folders world-readable; links and special files are left out. */
export async function copyFolder(from: string, to: string): Promise<void> {
  await makeFolder(to, 0o755)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, copy] = [join(from, entry.name), join(to, entry.name)]
    if (entry.isDirectory()) await copyFolder(source, copy)
    else if (entry.isFile()) await copyFileOpen(source, copy, 0o444)
  }
}

/** Copies a file, or hard-links it when it already has this mode. */
export async function copyFileOpen(from: string, to: string, mode: number): Promise<void> {
  const { mode: has } = await stat(from)
  if ((has & mode & 0o007) === (mode & 0o007) && (await linked(from, to))) return
  await copyFile(from, to, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE)
  await chmod(to, mode)
}

async function linked(from: string, to: string): Promise<boolean> {
  try {
    await link(from, to)
    return true
  } catch (error) {
    if (['EXDEV', 'EPERM', 'EACCES', 'EMLINK', 'ENOTSUP'].includes(codeOf(error) ?? '')) return false
    throw error
  }
}

/** Creates a folder and its missing parents with exactly this mode, independent of the umask. */
export async function makeFolder(folder: string, mode: number): Promise<void> {
  const parent = dirname(folder)
  // One by one, because Node's recursive mkdir never ends below /proc, where mkdir reports that the parent does not exist.
  if (parent !== folder && (await lstat(parent).catch(() => undefined)) === undefined) await makeFolder(parent, mode)
  const made = await mkdir(folder, { mode: 0o700 }).then(
    () => true,
    (error: unknown) => {
      if (codeOf(error) === 'EEXIST') return false
      throw error
    },
  )
  if (made) await chmod(folder, mode)
}
