import { createHash } from 'node:crypto'
import type { Stats } from 'node:fs'
import { realpath, stat } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { ToolError } from '@gantry/contract'
import { readPrivate } from '@gantry/core/internal/files/private-file'

/** A folder whose files may become tools. */
export interface TrustedFolder {
  /** Without links. */
  readonly path: string
}

/** A file of the folder, read once, so that the checked content is the used content. */
export interface FolderFile {
  /** Its name in the folder. */
  readonly name: string
  readonly path: string
  readonly bytes: Buffer
  readonly digest: string
  readonly executable: boolean
}

/** Of a module or a script; a program in machine code may be larger. */
const most = { text: 1_048_576, program: 16_777_216 } as const

/** Names that mean the same to a shell, a URL and every file system. */
const plainName = /^[A-Za-z0-9_][A-Za-z0-9._-]{0,127}$/

/**
 * Checks that only the user of this process, or root, can change the code in a folder.
 * - Errors: CONFIG_INVALID when the folder does not exist, or others may write to it.
 */
export async function trustFolder(path: string): Promise<TrustedFolder> {
  const found = await realpath(path).catch((cause: unknown) => {
    throw new ToolError('CONFIG_INVALID', `The folder of tools ${path} cannot be read.`, { cause })
  })
  const stats = await stat(found)
  if (!stats.isDirectory()) throw new ToolError('CONFIG_INVALID', `${path}, which is to hold tools, is not a folder.`)
  const fault = trustFault(stats)
  if (fault === undefined) return { path: found }
  const message = `The folder of tools ${path} ${fault}; code in it would run with the rights of this process.`
  throw new ToolError('CONFIG_INVALID', message)
}

/** Reads a file; throws an Error with the words that follow its name when it may not be used. */
export async function readEntry(folder: TrustedFolder, name: string): Promise<FolderFile> {
  if (!plainName.test(name)) throw new Refusal('has a name that is not letters, digits, ".", "_" and "-"')
  const path = await realpath(join(folder.path, name)).catch(() => {
    throw new Refusal('is not there, or a link that leads nowhere')
  })
  if (!path.startsWith(folder.path + sep)) throw new Refusal('is a link that leads out of the folder')
  const found = await readPrivate(path, most.program)
  if (found.state === 'not-a-file') throw new Refusal('is not a regular file')
  if (found.state === 'too-long') throw new Refusal(`is larger than ${most.program} bytes`)
  const { bytes, stats } = found
  const fault = trustFault(stats)
  if (fault !== undefined) throw new Refusal(fault)
  const executable = (stats.mode & 0o111) !== 0
  const bound = executable || name.endsWith('.wasm') ? most.program : most.text
  if (bytes.length > bound) throw new Refusal(`is larger than ${bound} bytes`)
  const digest = createHash('sha256').update(bytes).digest('hex')
  return { name, path, bytes, digest, executable }
}

/** Why a file is not used, whatever it was before; in words that follow its name. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
}

function trustFault({ mode, uid, gid }: Pick<Stats, 'mode' | 'uid' | 'gid'>): string | undefined {
  const own = process.getuid?.()
  // Systems without users have no such rights to look at.
  if (own === undefined) return undefined
  if (uid !== own && uid !== 0) return 'belongs to another user'
  if ((mode & 0o002) !== 0) return 'is world-writable'
  if ((mode & 0o020) !== 0 && gid !== process.getgid?.() && gid !== 0) return 'can be written by another group'
  return undefined
}
