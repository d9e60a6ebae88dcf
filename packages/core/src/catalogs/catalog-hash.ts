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
  readonly #buckets = new Map<string, Bucket>()
  #root: string | undefined

  add(digest: string): void {
    const bucket = this.#dirty(digest)
    bucket.digests.add(digest)
  }

  remove(digest: string): void {
    const bucket = this.#dirty(digest)
    bucket.digests.delete(digest)
    if (bucket.digests.size === 0) this.#buckets.delete(digest.slice(0, 2))
  }

  read(): string {
    if (this.#root !== undefined) return this.#root
    let text = ''
    for (const name of [...this.#buckets.keys()].sort()) {
      const bucket = this.#buckets.get(name)
      if (bucket === undefined) continue
      bucket.digest ??= hash('sha256', [...bucket.digests].sort().join(), 'hex')
      text += `${name}${bucket.digest}`
    }
    this.#root = hash('sha256', text, 'hex')
    return this.#root
  }

  #dirty(digest: string): Bucket {
    this.#root = undefined
    const name = digest.slice(0, 2)
    let bucket = this.#buckets.get(name)
    if (bucket === undefined) {
      bucket = { digests: new Set(), digest: undefined }
      this.#buckets.set(name, bucket)
    }
    bucket.digest = undefined
    return bucket
  }
}
