import { stat } from 'node:fs/promises'
import { ToolError } from '@gantry/contract'
import { isAbsent, readPrivate, replacePrivate } from '../files/private-file.ts'
import { canonicalJson } from '../json/canonical.ts'
import {
  isSealed,
  mostStoreBytes,
  newDocument,
  openRecord,
  readDocument,
  type StoreDocument,
  sealRecord,
  writeDocument,
} from './store-document.ts'
import { type KeyMaterial, keyOfFile, masterKey, newLock, readKey, type StoreKey, type StoreLock } from './store-key.ts'

export interface VaultOptions {
  readonly file: string
  readonly key: StoreKey
  readonly environment?: NodeJS.ProcessEnv
}

/** A store whose seal was found whole, with the key of its file. */
export interface OpenStore {
  readonly document: StoreDocument
  readonly key: Buffer
}

/** Reads and writes the file of a store; keeps what it has checked until the file changes. */
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

  /** The store; undefined when there is no file. SECRET_UNAVAILABLE when the key is wrong or the file was changed. */
  async read(): Promise<OpenStore | undefined> {
    const stamp = await stampOf(this.file)
    if (stamp === undefined) return undefined
    if (this.#seen?.stamp === stamp) return this.#seen.store
    const { document, seal } = readDocument(this.file, await this.#text())
    const key = await this.#keyFor(document)
    if (!isSealed(document, seal, key)) {
      throw new ToolError('SECRET_UNAVAILABLE', `${this.file} does not open: the key is another, or it was changed.`, {
        retryable: false,
      })
    }
    const store = { document, key }
    this.#seen = { stamp, store }
    return store
  }

  /** Writes the next state of the store. */
  async write({ document, key }: OpenStore): Promise<void> {
    const next = { ...document, revision: document.revision + 1 }
    try {
      await replacePrivate(this.file, writeDocument(next, key))
    } catch (error) {
      throw new ToolError('SECRET_UNAVAILABLE', `${this.file} cannot be written.`, { cause: error })
    }
  }

  /** A store without secrets, not written yet. */
  async fresh(key: StoreKey = this.#key): Promise<OpenStore> {
    const material = await readKey(key, this.#environment)
    const document = newDocument(newLock(material))
    return { document, key: keyOfFile(await this.#master(material, document.lock), document.id) }
  }

  /** Writes all secrets anew under another key, which opens the store from now on. */
  async rekey({ document, key }: OpenStore, other: StoreKey): Promise<void> {
    const target = await this.fresh(other)
    const { id } = target.document
    const records = document.records.map((record) => {
      const value = openRecord(document.id, record, key)
      if (value === undefined) throw new ToolError('SECRET_UNAVAILABLE', `The secret ${record.name} does not open.`)
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
    throw new ToolError('CONFIG_INVALID', `${this.file} is no regular file of at most ${mostStoreBytes} bytes.`)
  }

  async #keyFor({ id, lock }: StoreDocument): Promise<Buffer> {
    return keyOfFile(await this.#master(await readKey(this.#key, this.#environment), lock), id)
  }

  /** A passphrase is stretched once for a lock, because that takes a while on purpose. */
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

/** Tells one state of a file from the next; undefined when there is no file. */
async function stampOf(file: string): Promise<string | undefined> {
  try {
    const { ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
    return `${ino} ${size} ${mtimeNs} ${ctimeNs}`
  } catch (error) {
    if (isAbsent(error)) return undefined
    throw new ToolError('SECRET_UNAVAILABLE', `${file} cannot be read.`, { cause: error })
  }
}
