import { createPublicKey, type KeyObject } from 'node:crypto'
import { createBatch } from '../../storage/batch.ts'
import type { KeyRecords, LiveKey, Verifier } from '../../storage/keys/api-keys.ts'
import { createExpiring, type Known } from './authenticator.ts'

/** A live key, made ready to be compared. */
export interface ReadyKey {
  readonly id: string
  readonly known: Known
  /** Of a key that is sent. */
  readonly digest?: Buffer
  /** Of a key that signs. */
  readonly publicKey?: KeyObject
}

/** The live keys, remembered for a few seconds. */
export interface LiveKeys {
  /** At once for a key that was asked for lately. Rejects with STORE_UNAVAILABLE when the database is away. */
  find(id: string): ReadyKey | undefined | Promise<ReadyKey | undefined>
  /** A key, or perhaps any, is not what it was. */
  changed(id: string | undefined): void
  /** Says that somebody came with it. */
  used(id: string): void
  /** Writes down which were used. */
  flush(): Promise<void>
}

/** As long as this a process that does not hear of it lets a revoked key in. */
const keptMs = 5_000
const mostKept = 10_000

/**
 * Asks the records for keys, many with one statement and one statement at a time, so that those who guess ids cannot keep
 * the database busy. Only keys that exist are remembered: guesses would push these out.
 */
export function createLiveKeys(records: Pick<KeyRecords, 'find' | 'used'>, now?: () => number): LiveKeys {
  const kept = createExpiring<ReadyKey>(mostKept, now)
  let seen = new Set<string>()
  let changes = 0

  const ask = createBatch<string, ReadyKey | undefined>(async (ids) => {
    const before = changes
    const began = performance.now()
    const found = await records.find([...new Set(ids)])
    const took = performance.now() - began
    const ready = new Map(found.map((key) => [key.id, readyOf(key)]))
    // What was read before a change is good for those who asked before it, and for nobody else.
    if (before === changes) {
      for (const { id, leftMs } of found) {
        const key = ready.get(id)
        if (key !== undefined) kept.set(id, key, Math.min(keptMs, leftMs) - took)
      }
    }
    return ids.map((id) => ready.get(id))
  })
  return {
    find: (id) => kept.get(id) ?? ask.add(id),
    changed(id) {
      changes += 1
      if (id === undefined || id === '') kept.clear()
      else kept.delete(id)
    },
    used: (id) => void seen.add(id),
    async flush() {
      if (seen.size === 0) return
      const ids = [...seen]
      seen = new Set()
      await records.used(ids)
    },
  }
}

function readyOf({ id, identity, verifier }: LiveKey): ReadyKey {
  return { id, known: { identity }, ...readyVerifier(verifier) }
}

function readyVerifier(verifier: Verifier): Pick<ReadyKey, 'digest' | 'publicKey'> {
  if ('digest' in verifier) return { digest: Buffer.from(verifier.digest, 'base64url') }
  return { publicKey: publicKeyOf(verifier.publicKey) }
}

/**
 * The points of small order in every way that they can be written, without the sign: for each of them anybody can make
 * signatures that hold for many messages.
 */
const smallOrder: ReadonlySet<string> = new Set([
  '0000000000000000000000000000000000000000000000000000000000000000',
  '0100000000000000000000000000000000000000000000000000000000000000',
  '26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05',
  'c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a',
  'ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
  'eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f',
])

/** An Ed25519 public key from its 32 bytes in base64url; throws when it is none, or of small order. */
export function publicKeyOf(text: string): KeyObject {
  const bytes = Buffer.from(text, 'base64url')
  bytes[31] = (bytes[31] ?? 0) & 0x7f
  if (smallOrder.has(bytes.toString('hex'))) throw new RangeError('The key is a point of small order.')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: text }, format: 'jwk' })
}
