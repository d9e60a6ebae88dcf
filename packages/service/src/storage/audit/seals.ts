import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto'
import { microsecondsOf } from './audit-rows.ts'

/** A seal as it is read and exported. */
export type Seal = {
  readonly n: number
  /** The hash of the seal before; zeros for the first. */
  readonly prev: string
  /** It stands for the rows after this number, up to and with `uptoSeq`. */
  readonly afterSeq: number
  readonly uptoSeq: number
  readonly seqs: readonly number[]
  /** Of each of those rows, one after the other, as hexadecimal text. */
  readonly digests: string
  /** In UTC, with microseconds. */
  readonly sealedAt: string
  /** Which key the hash was made with; null when without one. */
  readonly keyId: string | null
  readonly hash: string
}

/** What the first seal has for the hash of the one before. */
export const noHash = '0'.repeat(64)

/** A secret that seals are made with, so that whoever can write to the database alone cannot make one. */
export interface SealKey {
  readonly id: string
  readonly secret: string
}

export function sealKey(secret: string): SealKey {
  return { id: createHmac('sha256', secret).update('gantry audit key').digest('hex').slice(0, 16), secret }
}

/** The hash of a seal: SHA-256, or HMAC-SHA-256 with the key that `keyId` names. */
export function hashOf(seal: Omit<Seal, 'hash'>, key: SealKey | undefined): string {
  const { n, prev, afterSeq, uptoSeq, seqs, digests, sealedAt, keyId } = seal
  const hash: Hash | Hmac = key === undefined ? createHash('sha256') : createHmac('sha256', key.secret)
  const head = ['gantry audit seal 1', n, prev, afterSeq, uptoSeq, microsecondsOf(sealedAt), keyId ?? '-']
  return hash.update(`${head.join(';')};${seqs.join(',')};${digests}`).digest('hex')
}
