import { createCipheriv, createDecipheriv, hkdfSync, randomBytes, scrypt } from 'node:crypto'
import { canonicalJson } from '../json/canonical.ts'
import { type KeyMaterial, keyBytes } from './store-key.ts'

/** How the key of a store comes about: given as it is, or from a passphrase. */
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

/** The lock of a new store, with the cost that OWASP names for scrypt. */
export function newLock({ kind }: KeyMaterial): StoreLock {
  if (kind === 'key') return { kind }
  return { kind: 'scrypt', salt: randomBytes(16).toString('base64'), cost: 131_072, blockSize: 8, parallel: 1 }
}

/** The master key; undefined when this kind of key does not fit the lock. */
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

/** A key for one file only, so that one master key can serve many. */
export function keyOfFile(master: Buffer, id: string): Buffer {
  return Buffer.from(hkdfSync('sha256', master, Buffer.from(id, 'base64'), 'gantry secrets 1', keyBytes))
}

/** Encrypts with AES-256-GCM under a random nonce, bound to what it is about. */
export function encrypt(key: Buffer, about: unknown, text: string): string {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(canonicalJson(about)))
  const parts = [nonce, cipher.update(text, 'utf8'), cipher.final()]
  return Buffer.concat([...parts, cipher.getAuthTag()]).toString('base64')
}

/** The text, or undefined when the key is another, or it was changed, or it is about something else. */
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
