import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, scrypt } from 'node:crypto'
import { mkdir } from 'node:fs/promises'
import { dirname } from 'node:path'
import { ToolError } from '@gantry/contract'
import { codeOf, createPrivate, readPrivate } from '../files/private-file.ts'
import { canonicalJson } from '../json/canonical.ts'

/** The key of a secret store: 32 bytes as base64 or hex, from a variable or a file, or a passphrase. */
export type StoreKey =
  | { readonly variable: string }
  /** A file with mode 600. */
  | { readonly file: string }
  | { readonly passphrase: string }

/** A key after reading. */
export type KeyMaterial =
  | { readonly kind: 'key'; readonly bytes: Buffer }
  | { readonly kind: 'passphrase'; readonly text: string }

export const keyBytes = 32
const mostKeyBytes = 1_024
/** Shorter passphrases can be brute-forced. */
const shortestPassphrase = 12

/** Reads a key; throws CONFIG_INVALID when it is missing or invalid. No error repeats any part of it. */
export async function readKey(key: StoreKey, environment: NodeJS.ProcessEnv): Promise<KeyMaterial> {
  if ('passphrase' in key) {
    if (key.passphrase.length >= shortestPassphrase) return { kind: 'passphrase', text: key.passphrase }
    throw wrong(`The passphrase must have at least ${shortestPassphrase} characters.`)
  }
  if ('file' in key) return { kind: 'key', bytes: parseKey(`The key file ${key.file}`, await readKeyFile(key.file)) }
  const text = environment[key.variable]
  if (text === undefined || text === '')
    throw wrong(`The variable ${key.variable}, which holds the key of the secret store, is not set.`)
  return { kind: 'key', bytes: parseKey(`The variable ${key.variable}`, text) }
}

/** Creates a file with a new key and mode 600; throws CONFIG_INVALID when the path exists. */
export async function createKeyFile(file: string): Promise<void> {
  try {
    await mkdir(dirname(file), { recursive: true, mode: 0o700 })
    await createPrivate(file, `${randomBytes(keyBytes).toString('base64')}\n`)
  } catch (error) {
    const why = codeOf(error) === 'EEXIST' ? 'exists already and is not overwritten' : 'cannot be written'
    throw wrong(`The key file ${file} ${why}.`, error)
  }
}

async function readKeyFile(file: string): Promise<string> {
  const found = await readPrivate(file, mostKeyBytes).catch((error: unknown) => {
    throw wrong(`The key file ${file} cannot be read.`, error)
  })
  if (found.state !== 'read') throw wrong(`The key file ${file} is not a regular file, or is too long.`)
  const { mode, uid } = found.stats
  const own = process.getuid === undefined || uid === process.getuid() || uid === 0
  if (process.getuid !== undefined && (mode & 0o077) !== 0) {
    throw wrong(`The key file ${file} can be read or written by others; chmod 600 it.`)
  }
  if (!own) throw wrong(`The key file ${file} belongs to another user.`)
  return found.bytes.toString('utf8')
}

function parseKey(what: string, text: string): Buffer {
  const word = text.trim()
  const bytes = /^[0-9a-fA-F]{64}$/.test(word) ? Buffer.from(word, 'hex') : Buffer.from(word, 'base64')
  if (bytes.length === keyBytes && /^[0-9A-Za-z+/_-]+={0,2}$/.test(word)) return bytes
  throw wrong(`${what} does not hold ${keyBytes} bytes as base64 or hex; create a key with gantry secrets init.`)
}

function wrong(text: string, cause?: unknown): ToolError {
  return new ToolError('CONFIG_INVALID', text, cause === undefined ? {} : { cause })
}

/** How the key of a store is derived: used directly, or from a passphrase. */
export type StoreLock =
  | { readonly kind: 'key' }
  | {
      readonly kind: 'scrypt'
      readonly salt: string
      readonly cost: number
      readonly blockSize: number
      readonly parallel: number
    }

const nonceBytes = 12
const tagBytes = 16

/** The lock of a new store, with the scrypt cost that OWASP recommends. */
export function newLock({ kind }: KeyMaterial): StoreLock {
  if (kind === 'key') return { kind }
  return { kind: 'scrypt', salt: randomBytes(16).toString('base64'), cost: 131_072, blockSize: 8, parallel: 1 }
}

/** The master key; undefined when the kind of key does not match the lock. */
export async function masterKey(material: KeyMaterial, lock: StoreLock): Promise<Buffer | undefined> {
  if (material.kind === 'key') return lock.kind === 'key' ? material.bytes : undefined
  return lock.kind === 'scrypt' ? stretch(material.text, lock) : undefined
}

function stretch(text: string, lock: Extract<StoreLock, { kind: 'scrypt' }>): Promise<Buffer> {
  const { cost, blockSize, parallel: parallelization } = lock
  const options = { cost, blockSize, parallelization, maxmem: 256 * cost * blockSize }
  return new Promise((resolve, reject) => {
    scrypt(text.normalize('NFC'), Buffer.from(lock.salt, 'base64'), keyBytes, options, (error, key) => {
      if (error === null) resolve(key)
      else reject(error)
    })
  })
}

/** Derives the key of one file, so that one master key can serve many files. */
export function keyOfFile(master: Buffer, id: string): Buffer {
  return Buffer.from(hkdfSync('sha256', master, Buffer.from(id, 'base64'), 'gantry secrets 1', keyBytes))
}

/** Encrypts with AES-256-GCM under a random nonce; `about` is the authenticated data. */
export function encrypt(key: Buffer, about: unknown, text: string): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(canonicalJson(about)))
  const parts = [nonce, cipher.update(text, 'utf8'), cipher.final()]
  return Buffer.concat([...parts, cipher.getAuthTag()]).toString('base64')
}

/** Decrypts a box; undefined when the key, the box or `about` does not match. */
export function decrypt(key: Buffer, about: unknown, box: string): string | undefined {
  const bytes = Buffer.from(box, 'base64')
  if (bytes.length < nonceBytes + tagBytes) return undefined
  const options = { authTagLength: tagBytes }
  const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, nonceBytes), options)
  decipher.setAAD(Buffer.from(canonicalJson(about))).setAuthTag(bytes.subarray(-tagBytes))
  try {
    const text = decipher.update(bytes.subarray(nonceBytes, -tagBytes))
    return Buffer.concat([text, decipher.final()]).toString('utf8')
  } catch {
    return undefined
  }
}
