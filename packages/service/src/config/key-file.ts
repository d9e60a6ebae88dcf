import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { link, mkdir, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ToolError } from '@gantry/contract'

const keyForm = /^gk_[A-Za-z0-9_-]{43}$/
const mostFileBytes = 1_024

/** 256 random bits. */
export function newApiKey(): string {
  return `gk_${randomBytes(32).toString('base64url')}`
}

/**
 * The key in a file that only its owner may read. The first to ask makes it; whoever asks at the same time gets the same.
 * Throws CONFIG_INVALID for a file that others may read, or that holds anything else; no message holds any of it.
 */
export function ensureApiKey(file: string): Promise<{ readonly key: string; readonly created: boolean }> {
  return ensureKey(file, keyForm, newApiKey)
}

/** The same for a key of another form. */
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
  throw unusable(file, 'does not hold a key; remove it, and the next start makes one')
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

/** Makes a file that is there whole or not at all; false when there is one already. */
async function createWhole(file: string, text: string): Promise<boolean> {
  const draft = `${file}.${randomBytes(6).toString('hex')}.tmp`
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
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

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

function unusable(file: string, why: string, cause?: unknown): ToolError {
  return new ToolError('CONFIG_INVALID', `The key file ${file} ${why}.`, cause === undefined ? {} : { cause })
}
