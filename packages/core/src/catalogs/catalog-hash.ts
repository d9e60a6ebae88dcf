import { sha256 } from '../json/sha256.ts'

/** Something with a digest, which may be costly to ask for. */
interface Digested {
  readonly digest: string
}

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
 * A change costs a set operation; the next read asks new entries for their digests and sorts one bucket for each.
 */
export class CatalogHash {
  readonly #buckets: (Bucket | undefined)[] = new Array(256)
  readonly #fresh = new Set<Digested>()
  #root: string | undefined

  add(entry: Digested): void {
    this.#root = undefined
    this.#fresh.add(entry)
  }

  remove(entry: Digested): void {
    this.#root = undefined
    if (!this.#fresh.delete(entry)) this.#bucket(entry.digest).digests.delete(entry.digest)
  }

  read(): string {
    if (this.#root !== undefined) return this.#root
    for (const { digest } of this.#fresh) this.#bucket(digest).digests.add(digest)
    this.#fresh.clear()
    let text = ''
    this.#buckets.forEach((bucket, number) => {
      if (bucket === undefined || bucket.digests.size === 0) return
      bucket.digest ??= sha256([...bucket.digests].sort().join())
      text += `${number}:${bucket.digest},`
    })
    this.#root = sha256(text)
    return this.#root
  }

  /** The bucket of a digest, whose hash is about to change. */
  #bucket(digest: string): Bucket {
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
