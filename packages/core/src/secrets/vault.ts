import { randomBytes } from 'node:crypto'
import { stat } from 'node:fs/promises'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import { isAbsent, readPrivate, replacePrivate } from '../files/private-file.ts'
import { canonicalJson } from '../json/canonical.ts'
import { parseJson } from '../json/parse.ts'
import { JsonError } from '../json/plain.ts'
import { isSecretName } from './secret.ts'
import {
  decrypt,
  encrypt,
  type KeyMaterial,
  keyOfFile,
  masterKey,
  newLock,
  readKey,
  type StoreKey,
  type StoreLock,
} from './store-key.ts'

export interface VaultOptions {
  readonly file: string
  readonly key: StoreKey
  readonly environment?: NodeJS.ProcessEnv
}

/** A store with a verified seal, and the key of its file. */
export interface OpenStore {
  readonly document: StoreDocument
  readonly key: Buffer
}

/** Reads and writes the file of a store; caches the verified store until the file changes. */
export class Vault {
  readonly file: string
  readonly #environment: NodeJS.ProcessEnv
  #key: StoreKey
  #seen: { readonly stamp: string; readonly store: OpenStore } | undefined
  #stretched: { readonly salt: string; readonly master: Buffer } | undefined

  constructor({ file, key, environment = process.env }: VaultOptions) {
    this.file = file
    this.#key = key
    this.#environment = environment
  }

  /** The store; undefined when there is no file. SECRET_UNAVAILABLE for a wrong key or a modified file. */
  async read(): Promise<OpenStore | undefined> {
    const stamp = await stampOf(this.file)
    if (stamp === undefined) return undefined
    if (this.#seen?.stamp === stamp) return this.#seen.store
    const { document, seal } = readDocument(this.file, await this.#text())
    const key = await this.#keyFor(document)
    if (!isSealed(document, seal, key)) {
      throw new ToolError(
        'SECRET_UNAVAILABLE',
        `${this.file} does not open: the key is wrong, or the file was modified.`,
        {
          retryable: false,
        },
      )
    }
    const store = { document, key }
    this.#seen = { stamp, store }
    return store
  }

  /** Writes the store with the next revision. */
  async write({ document, key }: OpenStore): Promise<void> {
    const next = { ...document, revision: document.revision + 1 }
    try {
      await replacePrivate(this.file, writeDocument(next, key))
    } catch (error) {
      throw new ToolError('SECRET_UNAVAILABLE', `${this.file} cannot be written.`, { cause: error })
    }
  }

  /** An empty store, not yet written. */
  async fresh(key: StoreKey = this.#key): Promise<OpenStore> {
    const material = await readKey(key, this.#environment)
    const document = newDocument(newLock(material))
    return { document, key: keyOfFile(await this.#master(material, document.lock), document.id) }
  }

  /** Re-encrypts all secrets under another key and uses that key from now on. */
  async rekey({ document, key }: OpenStore, other: StoreKey): Promise<void> {
    const target = await this.fresh(other)
    const { id } = target.document
    const records = document.records.map((record) => {
      const value = openRecord(document.id, record, key)
      if (value === undefined)
        throw new ToolError('SECRET_UNAVAILABLE', `The secret ${record.name} cannot be decrypted.`)
      return sealRecord(id, record.name, record.version, value, target.key)
    })
    await this.write({ document: { ...target.document, revision: document.revision, records }, key: target.key })
    this.#key = other
  }

  async #text(): Promise<string> {
    const found = await readPrivate(this.file, mostStoreBytes).catch((error: unknown) => {
      throw new ToolError('SECRET_UNAVAILABLE', `${this.file} cannot be read.`, { cause: error })
    })
    if (found.state === 'read') return found.bytes.toString('utf8')
    throw new ToolError('CONFIG_INVALID', `${this.file} is not a regular file of at most ${mostStoreBytes} bytes.`)
  }

  async #keyFor({ id, lock }: StoreDocument): Promise<Buffer> {
    return keyOfFile(await this.#master(await readKey(this.#key, this.#environment), lock), id)
  }

  /** Caches the key derived from a passphrase, because scrypt is slow by design. */
  async #master(material: KeyMaterial, lock: StoreLock): Promise<Buffer> {
    const salt = canonicalJson(lock)
    if (this.#stretched?.salt === salt && lock.kind === 'scrypt') return this.#stretched.master
    const master = await masterKey(material, lock)
    if (master === undefined) {
      const [wanted, given] = lock.kind === 'key' ? ['a key', 'a passphrase'] : ['a passphrase', 'a key']
      throw new ToolError('CONFIG_INVALID', `${this.file} opens with ${wanted}, not with ${given}.`)
    }
    this.#stretched = { salt, master }
    return master
  }
}

/** Identifies the state of a file; undefined when there is no file. */
async function stampOf(file: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw new ToolError('SECRET_UNAVAILABLE', `${file} cannot be read.`, { cause: error })
  }
}

/** One secret. The box is bound to the file, the name and the version, and decrypts under no other. */
interface StoreRecord {
  readonly name: string
  /** Incremented each time the secret is set. */
  readonly version: number
  readonly box: string
}

/**
 * The format of a store. Names are in plain text, values are encrypted.
 * The seal authenticates the whole document, so that no record can be removed, rolled back or changed without the key;
 * only the file as a whole can be rolled back to an earlier state.
 */
interface StoreDocument {
  readonly format: 'gantry-secrets'
  readonly version: 1
  readonly id: string
  readonly lock: StoreLock
  readonly revision: number
  readonly records: readonly StoreRecord[]
}

const mostStoreBytes = 16 * 1024 * 1024
const limits = { bytes: mostStoreBytes, depth: 8, nodes: 100_000 }
/** Limits the scrypt cost, because the file sets it: 256 MiB. */
const dearest = 2 ** 21

function newDocument(lock: StoreLock): StoreDocument {
  const id = randomBytes(16).toString('base64')
  return { format: 'gantry-secrets', version: 1, id, lock, revision: 0, records: [] }
}

/** The text of a store with its seal. */
function writeDocument(document: StoreDocument, key: Buffer): string {
  return `${JSON.stringify({ ...document, seal: encrypt(key, ['seal', document], '') }, undefined, 2)}\n`
}

/** Parses a store without checking its seal; throws CONFIG_INVALID when it is not a store. */
function readDocument(file: string, text: string): { document: StoreDocument; seal: string } {
  const { seal, ...document } = parse(file, text)
  if (!isStoreDocument(document) || !isText(seal)) throw noStore(file)
  return { document, seal }
}

function isStoreDocument(document: unknown): document is StoreDocument {
  if (!isObject(document) || Object.keys(document).length !== 6) return false
  const { format, version, id, lock, revision, records } = document
  const known = format === 'gantry-secrets' && version === 1
  return known && isText(id) && isCount(revision) && isLock(lock) && areRecords(records)
}

function isSealed(document: StoreDocument, seal: string, key: Buffer): boolean {
  return decrypt(key, ['seal', document], seal) === ''
}

export function sealRecord(id: string, name: string, version: number, value: string, key: Buffer): StoreRecord {
  return { name, version, box: encrypt(key, ['record', id, name, version], value) }
}

export function openRecord(id: string, { name, version, box }: StoreRecord, key: Buffer): string | undefined {
  return decrypt(key, ['record', id, name, version], box)
}

function parse(file: string, text: string): { readonly [key: string]: unknown } {
  try {
    const value = parseJson(text, limits)
    if (isObject(value)) return value
  } catch (error) {
    if (!(error instanceof JsonError)) throw error
  }
  throw noStore(file)
}

function isLock(lock: unknown): boolean {
  if (!isObject(lock)) return false
  const { kind, salt, cost, blockSize, parallel } = lock
  if (kind === 'key') return Object.keys(lock).length === 1
  const sound = kind === 'scrypt' && isText(salt) && isCount(cost) && isCount(blockSize) && isCount(parallel)
  if (!sound || Object.keys(lock).length !== 5) return false
  const powerOfTwo = Number.isInteger(Math.log2(cost)) && cost >= 2 ** 14
  return powerOfTwo && blockSize >= 8 && parallel >= 1 && parallel <= 4 && cost * blockSize <= dearest
}

function areRecords(records: unknown): boolean {
  if (!Array.isArray(records)) return false
  const names = new Set<unknown>()
  return records.every((record: unknown) => {
    if (!isObject(record) || Object.keys(record).length !== 3) return false
    const { name, version, box } = record
    const fresh = typeof name === 'string' && isSecretName(name) && !names.has(name)
    names.add(name)
    return fresh && isCount(version) && isText(box)
  })
}

function isCount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}

function noStore(file: string): ToolError {
  return new ToolError('CONFIG_INVALID', `${file} is not a store of secrets, or was damaged.`)
}
