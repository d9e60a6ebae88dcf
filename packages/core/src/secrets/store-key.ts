import { randomBytes } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ToolError } from '@gantry/contract'
import { codeOf, createPrivate, readPrivate } from '../files/private-file.ts'

/** What opens a store of secrets: 32 bytes as base64 or hex, from a variable or a file, or a passphrase. */
export type StoreKey =
  | { readonly variable: string }
  /** Only its owner may read it. */
  | { readonly file: string }
  | { readonly passphrase: string }

/** A key as it was read. */
export type KeyMaterial =
  | { readonly kind: 'key'; readonly bytes: Buffer }
  | { readonly kind: 'passphrase'; readonly text: string }

export const keyBytes = 32
const mostKeyBytes = 1_024
/** Shorter ones can be tried one by one. */
const shortestPassphrase = 12

/** Reads a key; CONFIG_INVALID when there is none or it is no key. No message holds any of it. */
export async function readKey(key: StoreKey, environment: NodeJS.ProcessEnv): Promise<KeyMaterial> {
  if ('passphrase' in key) {
    if (key.passphrase.length >= shortestPassphrase) return { kind: 'passphrase', text: key.passphrase }
    throw wrong(`The passphrase must have at least ${shortestPassphrase} characters.`)
  }
  if ('file' in key) return { kind: 'key', bytes: parseKey(`The key file ${key.file}`, await readKeyFile(key.file)) }
  const text = environment[key.variable]
  if (text === undefined || text === '') throw wrong(`There is no key of the secrets in ${key.variable}.`)
  return { kind: 'key', bytes: parseKey(`The variable ${key.variable}`, text) }
}

/** Makes a file with a new key that only its owner may read; CONFIG_INVALID when there is something already. */
export async function createKeyFile(file: string): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await createPrivate(file, `${randomBytes(keyBytes).toString('base64')}\n`)
  } catch (error) {
    const why = codeOf(error) === 'EEXIST' ? 'exists already, and is left as it is' : 'cannot be written'
    throw wrong(`The key file ${file} ${why}.`, error)
  }
}

async function readKeyFile(file: string): Promise<string> {
  const found = await readPrivate(file, mostKeyBytes).catch((error: unknown) => {
    throw wrong(`The key file ${file} cannot be read.`, error)
  })
  if (found.state !== 'read') throw wrong(`The key file ${file} is not a short regular file.`)
  const { mode, uid } = found.stats
  const own = process.getuid === undefined || uid === process.getuid() || uid === 0
  if (process.getuid !== undefined && (mode & 0o077) !== 0) {
    throw wrong(`The key file ${file} can be read or written by others; chmod 600 it.`)
  }
  if (!own) throw wrong(`The key file ${file} belongs to somebody else.`)
  return found.bytes.toString('utf8')
}

function parseKey(what: string, text: string): Buffer {
  const word = text.trim()
  const bytes = /^[0-9a-fA-F]{64}$/.test(word) ? Buffer.from(word, 'hex') : Buffer.from(word, 'base64')
  if (bytes.length === keyBytes && /^[0-9A-Za-z+/_-]+={0,2}$/.test(word)) return bytes
  throw wrong(`${what} does not hold ${keyBytes} bytes as base64 or hex; gantry secrets init makes a key.`)
}

function wrong(text: string, cause?: unknown): ToolError {
  return new ToolError('CONFIG_INVALID', text, cause === undefined ? {} : { cause })
}
