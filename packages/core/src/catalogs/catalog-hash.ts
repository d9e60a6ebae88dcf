import { hash } from 'node:crypto'

interface Bucket {
  readonly digests: Set<string>
  /** Absent after a change, until somebody reads the hash. */
  digest: string | undefined
}

/**
 * One hash for a whole catalog, whatever the order of registration.
 * A tree of two levels: digests fall into 256 buckets by their first byte, a bucket's hash is taken over its sorted
 * digests and the root over the buckets. XOR or addition would be shorter, but whoever registers a few hundred tools
 * could choose them so that a different catalog has the same sum; here a collision is one of SHA-256.
 * A change costs a set operation, the next read sorts one bucket (1/256 of the tools).
 */
export class CatalogHash {
  readonly #buckets: (Bucket | undefined)[] = new Array(256)
  #root: string | undefined

  add(digest: string): void {
    this.#dirty(digest).digests.add(digest)
  }

  remove(digest: string): void {
    this.#dirty(digest).digests.delete(digest)
  }

  read(): string {
    if (this.#root !== undefined) return this.#root
    let text = ''
    this.#buckets.forEach((bucket, number) => {
      if (bucket === undefined || bucket.digests.size === 0) return
      bucket.digest ??= hash('sha256', [...bucket.digests].sort().join(), 'hex')
      text += `${number}:${bucket.digest},`
    })
    this.#root = hash('sha256', text, 'hex')
    return this.#root
  }

  #dirty(digest: string): Bucket {
    this.#root = undefined
    const number = nibble(digest.charCodeAt(0)) * 16 + nibble(digest.charCodeAt(1))
    const bucket = this.#buckets[number] ?? { digests: new Set(), digest: undefined }
    this.#buckets[number] = bucket
    bucket.digest = undefined
    return bucket
  }
}

/** The value of a hexadecimal digit in lower case. */
function nibble(code: number): number {
  return code < 97 ? code - 48 : code - 87
}
