import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import { isObject, isText } from '../json/kinds.ts'
import { JsonError } from '../json/limits.ts'
import { parseJson } from '../json/parse.ts'
import { isSecretName } from './secret.ts'
import { decrypt, encrypt, type StoreLock } from './store-key.ts'

/** One secret. The box is bound to the file, the name and the version, and opens under no other. */
export interface StoreRecord {
  readonly name: string
  /** Counts how often it was set. */
  readonly version: number
  readonly box: string
}

/**
 * A store as it is written. Names stand in the open, values do not.
 * The seal covers all the rest, so that no record can be taken out, put back or changed without the key; only the file as
 * a whole can be replaced by an earlier state of itself.
 */
export interface StoreDocument {
  readonly format: 'gantry-secrets'
  readonly version: 1
  readonly id: string
  readonly lock: StoreLock
  readonly revision: number
  readonly records: readonly StoreRecord[]
}

export const mostStoreBytes = 16 * 1024 * 1024
const limits = { bytes: mostStoreBytes, depth: 8, nodes: 100_000 }
/** What a passphrase may cost to stretch, because the file decides it: 256 MiB. */
const dearest = 2 ** 21

export function newDocument(lock: StoreLock): StoreDocument {
  const id = randomBytes(16).toString('base64')
  return { format: 'gantry-secrets', version: 1, id, lock, revision: 0, records: [] }
}

/** The text of a store, sealed. */
export function writeDocument(document: StoreDocument, key: Buffer): string {
  return `${JSON.stringify({ ...document, seal: encrypt(key, ['seal', document], '') }, undefined, 2)}\n`
}

/** A store as it stands in a file, whose seal nobody has looked at yet; CONFIG_INVALID when it is no store. */
export function readDocument(file: string, text: string): { document: StoreDocument; seal: string } {
  const { seal, ...document } = parse(file, text)
  const { format, version, id, lock, revision, records } = document
  const known = Object.keys(document).length === 6 && format === 'gantry-secrets' && version === 1
  const sound = isText(id) && isText(seal) && isCount(revision) && isLock(lock) && areRecords(records)
  if (!known || !sound) throw noStore(file)
  return { document: document as unknown as StoreDocument, seal }
}

export function isSealed(document: StoreDocument, seal: string, key: Buffer): boolean {
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
