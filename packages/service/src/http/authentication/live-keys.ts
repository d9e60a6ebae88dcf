import { createPublicKey, type KeyObject } from 'node:crypto'
import { type ResponseWatch, unlessUnresponsive } from '../../observe/dependency-health.ts'
import { createBatch } from '../../storage/batch.ts'
import type { KeyRecords, LiveKey, Verifier } from '../../storage/keys/api-keys.ts'
import { createExpiring, type Known, lookupUnavailable } from './authenticator.ts'

/** A live key, parsed for comparison. */
export interface ReadyKey {
  readonly id: string
  readonly known: Known
  /** Of a bearer key. */
  readonly digest?: Buffer
  /** Of a signing key. */
  readonly publicKey?: KeyObject
}

/** The live keys, cached for a few seconds. */
export interface LiveKeys {
  /** Returns at once for a cached key. Rejects with STORE_UNAVAILABLE when the database is unavailable. */
  find(id: string): ReadyKey | undefined | Promise<ReadyKey | undefined>
  /** Invalidates a key, or all keys. */
  changed(id: string | undefined): void
  /** Records that a request used the key. */
  used(id: string): void
  /** Stores which keys were used. */
  flush(): Promise<void>
}

/** The time for which a process that misses the notification still accepts a revoked key. */
const keptMs = 5_000
const mostKept = 10_000

export interface LiveKeysOptions {
  /** The clock of the cache. */
  readonly now?: (() => number) | undefined
  /** Ends lookups when the database stops answering; absent where it is part of this process. */
  readonly health?: ResponseWatch | undefined
}

/**
 * Looks up keys, many with one statement and one statement at a time, so that guesses of ids cannot load the database.
 * Only existing keys are cached: guesses would evict them.
 */
export function createLiveKeys(
  records: Pick<KeyRecords, 'find' | 'used'>,
  { now, health }: LiveKeysOptions = {},
): LiveKeys {
  const kept = createExpiring<ReadyKey>(mostKept, now)
  let seen = new Set<string>()
  let changes = 0

  const ask = createBatch<string, ReadyKey | undefined>(async (ids) => {
    const before = changes
    const began = performance.now()
    const found = await records.find([...new Set(ids)])
    const took = performance.now() - began
    const ready = new Map(found.map((key) => [key.id, readyOf(key)]))
    // A lookup that began before a change answers only the requests from before the change.
    if (before === changes) {
      for (const { id, leftMs } of found) {
        const key = ready.get(id)
        if (key !== undefined) kept.set(id, key, Math.min(keptMs, leftMs) - took)
      }
    }
    return ids.map((id) => ready.get(id))
  })
  return {
    find(id) {
      const found = kept.get(id)
      if (found !== undefined || health === undefined) return found ?? ask.add(id)
      return unlessUnresponsive(health, 'database', lookupUnavailable, () => ask.add(id))
    },
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
 * The points of small order in all of their encodings, without the sign. Under such a point an attacker can make
 * signatures without a private key that hold for many messages.
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

/** An Ed25519 public key from its 32 bytes in base64url; throws when it is malformed, or of small order. */
export function publicKeyOf(text: string): KeyObject {
  const bytes = Buffer.from(text, 'base64url')
  bytes[31] = (bytes[31] ?? 0) & 0x7f
  if (smallOrder.has(bytes.toString('hex'))) throw new RangeError('The key is a point of small order.')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: text }, format: 'jwk' })
}
