import type { Stats } from 'node:fs'
import { lstat, realpath, stat } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isAbsent, readPrivate } from '../files/private-file.ts'
import { isSecretName, type SecretSource } from './secret.ts'

export interface FileSecretsOptions {
  /** Holds one file per secret, with the name of the secret. */
  readonly folder: string
}

const mostBytes = 65_536

/**
 * Secrets as Docker and Kubernetes mount them: one file each, read at each use, without its trailing newline.
 * Symbolic links are followed within the folder, because Kubernetes publishes a new version by a link.
 * Other users may read the files, as in every container. A folder or file that they can write is SECRET_UNAVAILABLE.
 */
export function fileSecrets({ folder }: FileSecretsOptions): SecretSource {
  return {
    async get(name) {
      if (!isSecretName(name)) return undefined
      const place = await secretFolder(folder)
      const path = await targetOf(place, name)
      return path === undefined ? undefined : readSecret(place, name, path)
    },
  }
}

interface SecretFolder {
  readonly path: string
  /** Accepted owners of files: the owner of the folder, root and this process. */
  readonly owners: ReadonlySet<number>
}

async function secretFolder(folder: string): Promise<SecretFolder> {
  try {
    const path = await realpath(folder)
    const stats = await stat(path)
    checkFolder(path, stats)
    return { path, owners: new Set([0, stats.uid, process.getuid?.() ?? 0]) }
  } catch (error) {
    if (ToolError.is(error)) throw error
    throw unavailable(`The secrets folder ${folder} cannot be read.`, error)
  }
}

/** The resolved path of a secret; undefined when there is none. */
async function targetOf(place: SecretFolder, name: string): Promise<string | undefined> {
  const path = join(place.path, name)
  try {
    const entry = await lstat(path)
    const target = await realpath(path)
    checkOwner(place, name, entry)
    if (!target.startsWith(`${place.path}${sep}`))
      throw unavailable(`The secret ${name} is a symbolic link out of the secrets folder.`)
    if (dirname(target) !== place.path) checkFolder(dirname(target), await stat(dirname(target)))
    return target
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw ToolError.is(error) ? error : unavailable(`The secret ${name} cannot be read.`, error)
  }
}

async function readSecret(place: SecretFolder, name: string, path: string): Promise<string> {
  const found = await readPrivate(path, mostBytes).catch((error: unknown) => {
    throw unavailable(`The secret ${name} cannot be read.`, error)
  })
  if (found.state === 'not-a-file') throw unavailable(`The secret ${name} is not a regular file.`)
  if (found.state === 'too-long') throw unavailable(`The secret ${name} is longer than ${mostBytes} bytes.`)
  checkOwner(place, name, found.stats)
  if (isOpenToOthers(found.stats)) throw unavailable(`The secret ${name} can be written by others; chmod go-w it.`)
  return textOf(name, found.bytes)
}

function textOf(name: string, bytes: Buffer): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '')
  } catch {
    throw unavailable(`The secret ${name} is not UTF-8 text.`)
  }
}

/** In a folder with the sticky bit, which Kubernetes sets, other users may add files but not replace existing ones. */
function checkFolder(path: string, stats: Stats): void {
  const sticky = (stats.mode & 0o1000) !== 0
  if (isOpenToOthers(stats) && !sticky) {
    throw unavailable(`The secrets folder ${path} can be written by others; chmod go-w it.`)
  }
}

function checkOwner({ owners }: SecretFolder, name: string, { uid }: Stats): void {
  if (!owners.has(uid)) throw unavailable(`The secret ${name} belongs to another user than its folder.`)
}

function isOpenToOthers({ mode }: Stats): boolean {
  return process.getuid !== undefined && (mode & 0o022) !== 0
}

function unavailable(text: string, cause?: unknown): ToolError {
  return new ToolError('SECRET_UNAVAILABLE', text, cause === undefined ? {} : { cause })
}
