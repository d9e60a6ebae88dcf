import type { Tool } from '@gantry/contract'
import { sha256 } from '../json/canonical.ts'

/**
 * The digest of one version: everything a caller relies on when it builds a call.
 * How the tool runs is left out, so that moving a tool to another backend does not make its callers stale.
 */
export function toolDigest(tool: Tool): string {
  const { namespace, name, version, title, description, inputSchema, outputSchema, annotations } = tool
  const seen = { namespace, name, version, title, description, inputSchema, outputSchema, annotations }
  return sha256(JSON.stringify(sorted(seen)))
}

/**
 * The digest of what a call of one version depends on: its name, its version and its schemas, without titles, descriptions
 * and examples. A call that was admitted under it runs wherever it is the same.
 */
export function callDigest(tool: Tool): string {
  const { namespace, name, version, inputSchema, outputSchema } = tool
  const bare = { inputSchema: withoutTexts(inputSchema), outputSchema: withoutTexts(outputSchema) }
  return sha256(JSON.stringify(sorted({ namespace, name, version, ...bare })))
}

/** Keywords that say something to a reader and nothing to a validator. */
const texts: ReadonlySet<string> = new Set(['title', 'description', '$comment', 'examples'])
/** Keywords whose members are names of the author's choice, so that none of them is a keyword. */
const named: ReadonlySet<string> = new Set([
  ...['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas', 'dependentRequired'],
  'dependencies',
])
/** Keywords whose value is data. */
const data: ReadonlySet<string> = new Set(['const', 'enum', 'default', 'required'])

function withoutTexts(schema: unknown): unknown {
  if (typeof schema !== 'object' || schema === null) return schema
  if (Array.isArray(schema)) return schema.map(withoutTexts)
  const kept = Object.entries(schema).filter(([key]) => !texts.has(key))
  return Object.fromEntries(kept.map(([key, value]) => [key, data.has(key) ? value : bareMember(key, value)]))
}

function bareMember(key: string, value: unknown): unknown {
  if (!named.has(key) || typeof value !== 'object' || value === null) return withoutTexts(value)
  return Object.fromEntries(Object.entries(value).map(([name, schema]) => [name, withoutTexts(schema)]))
}

/**
 * The value with every object's keys in order, so that native `JSON.stringify` gives equal values equal text.
 * This takes a third of the time of writing the text piece by piece.
 */
function sorted(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sorted)
  const record = value as Readonly<Record<string, unknown>>
  const copy: Record<string, unknown> = {}
  for (const key of ordered(Object.keys(record))) {
    const member = record[key]
    copy[key] = typeof member === 'object' ? sorted(member) : member
  }
  return copy
}

/** Sorts in place; for the few keys of most objects an insertion beats the built-in sort. */
function ordered(keys: string[]): string[] {
  if (keys.length > 24) return keys.sort()
  for (let index = 1; index < keys.length; index += 1) {
    const key = keys[index] ?? ''
    let at = index - 1
    for (; at >= 0 && (keys[at] ?? '') > key; at -= 1) keys[at + 1] = keys[at] ?? ''
    keys[at + 1] = key
  }
  return keys
}

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

/** Tells whether two definitions with one digest also run the same way; functions are compared by identity. */
export function sameRun(a: Tool, b: Tool): boolean {
  return same(a, b)
}

function same(a: unknown, b: unknown): boolean {
  if (Object.is(a, b)) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) !== Array.isArray(b) || !isPlain(a) || !isPlain(b)) return false
  const keys = Object.keys(a)
  if (keys.length !== Object.keys(b).length) return false
  return keys.every((key) => Object.hasOwn(b, key) && same(member(a, key), member(b, key)))
}

/** Client objects that ride in a binding are the same only when they are one object. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === Array.prototype || prototype === null
}

function member(value: object, key: string): unknown {
  return (value as Record<string, unknown>)[key]
}
