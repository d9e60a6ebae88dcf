import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { link, mkdir, open, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { ToolError } from '@gantry/contract'

const keyForm = /^gk_[A-Za-z0-9_-]{43}$/
const mostFileBytes = 1_024

/** 256 random bits. */
export function newApiKey(): string {
  return `gk_${randomBytes(32).toString('base64url')}`
}

/**
 * Reads the API key of a file that only its owner may read, and creates it when it is missing; concurrent processes get
 * the same key.
 * Throws CONFIG_INVALID for a file that others may read or that holds no key, without any of its content.
 */
export function ensureApiKey(file: string): Promise<{ readonly key: string; readonly created: boolean }> {
  return ensureKey(file, keyForm, newApiKey)
}

/** As `ensureApiKey`, for a key of another form. */
export async function ensureKey(
  file: string,
  form: RegExp,
  make: () => string,
): Promise<{ readonly key: string; readonly created: boolean }> {
  const found = await readKey(file, form)
  if (found !== undefined) return { key: found, created: false }
  const key = make()
  const created = await createWhole(file, `${key}\n`)
  return { key: created ? key : ((await readKey(file, form)) ?? key), created }
}

/** The key in a file, or undefined when there is no file; CONFIG_INVALID as in `ensureApiKey`. */
export function readApiKey(file: string): Promise<string | undefined> {
  return readKey(file, keyForm)
}

async function readKey(file: string, form: RegExp): Promise<string | undefined> {
  const text = await readOwn(file)
  if (text === undefined) return undefined
  const key = text.trim()
  if (form.test(key)) return key
  throw unusable(file, 'contains no key; remove it, and the next start creates one')
}

async function readOwn(file: string): Promise<string | undefined> {
  try {
    const handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW)
    try {
      const { mode, size } = await handle.stat()
      if ((mode & constants.S_IFMT) !== constants.S_IFREG) throw unusable(file, 'is not a regular file')
      if ((mode & 0o077) !== 0) throw unusable(file, 'can be read or written by others; chmod 600 it')
      if (size > mostFileBytes) throw unusable(file, 'is too long for a key')
      return await handle.readFile('utf8')
    } finally {
      await handle.close()
    }
  } catch (error) {
    if (ToolError.is(error)) throw error
    if (codeOf(error) === 'ENOENT') return undefined
    throw unusable(file, 'cannot be read', error)
  }
}

/** Creates a file atomically; false when it exists already. */
async function createWhole(file: string, text: string): Promise<boolean> {
  const draft = draftOf(file)
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await removeDeadDrafts(file)
    const handle = await open(draft, 'wx', 0o600)
    await handle.writeFile(text).then(() => handle.sync())
    await handle.close()
    await link(draft, file)
    return true
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false
    throw unusable(file, 'cannot be written', error)
  } finally {
    await rm(draft, { force: true })
  }
}

/** A name of its own for what becomes the file by a rename or a link; it has the process that writes it. */
function draftOf(file: string): string {
  return `${file}.${process.pid}-${randomBytes(4).toString('hex')}.tmp`
}

/** Removes what processes left that were killed before they had renamed or removed their draft. */
async function removeDeadDrafts(file: string): Promise<void> {
  for (const name of await readdir(dirname(file))) {
    if (!name.startsWith(`${basename(file)}.`)) continue
    const [, pid] = /\.(\d+)-[0-9a-f]{8}\.tmp$/.exec(name) ?? []
    const draft = join(dirname(file), name)
    if (pid !== undefined && (await isDead(draft, Number(pid)))) await rm(draft, { force: true })
  }
}

/** In containers every service has the same process id: a draft of ours is older than this process when another wrote it. */
async function isDead(draft: string, pid: number): Promise<boolean> {
  if (pid !== process.pid) return !isAlive(pid)
  const { mtimeMs } = await stat(draft).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }))
  return mtimeMs < Date.now() - process.uptime() * 1_000
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) === 'EPERM'
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

function unusable(file: string, why: string, cause?: unknown): ToolError {
  return new ToolError('CONFIG_INVALID', `The key file ${file} ${why}.`, cause === undefined ? {} : { cause })
}

/** The address of a running service, for commands on the same machine. */
export interface ServiceAddress {
  readonly url: string
  readonly pid: number
  /** Its configuration file; null when there is none. */
  readonly config: string | null
}

export function addressFile(data: string): string {
  return join(data, 'service.json')
}

/** Writes the address atomically, readable by this user only. */
export async function writeAddress(data: string, address: ServiceAddress): Promise<void> {
  const file = addressFile(data)
  const draft = draftOf(file)
  await mkdir(dirname(file), { recursive: true, mode: 0o700 })
  await removeDeadDrafts(file)
  await writeFile(draft, `${JSON.stringify(address)}\n`, { mode: 0o600 })
  await rename(draft, file)
}

/** Removes the address, unless another service has replaced it. */
export async function removeAddress(data: string, { pid }: ServiceAddress): Promise<void> {
  const there = await readAddress(data)
  if (there?.pid === pid) await rm(addressFile(data), { force: true })
}

/** Reads the address; undefined when it is missing or invalid. */
export async function readAddress(data: string): Promise<ServiceAddress | undefined> {
  try {
    const { url, pid, config } = JSON.parse(await readFile(addressFile(data), 'utf8'))
    if (typeof url !== 'string' || typeof pid !== 'number') return undefined
    return { url, pid, config: typeof config === 'string' ? config : null }
  } catch {
    return undefined
  }
}

/** Whether only this machine can reach an address. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || /^127\.[0-9.]+$/.test(host)
}
