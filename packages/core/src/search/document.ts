import { grown } from './dictionary.ts'
import { keyPrefix } from './score.ts'
import { isCommon, tokenize } from './tokenize.ts'

/** A searchable document: its texts by field, under a unique key. */
export interface Document {
  readonly key: string
  readonly name: string
  readonly namespace: string
  readonly title?: string
  readonly tags?: readonly string[]
  /** Alternative names, `namespace:name`. */
  readonly aliases?: readonly string[]
  readonly description: string
  /** Ranks below an equal document without the flag. */
  readonly lowered?: boolean
}

/** Limits on indexed tokens and text; the rest of a long description is not searchable. */
export const maxDocumentTokens = 255
const maxNameTokens = 16
const maxText = 4_000

/**
 * The weight of a term in a document is one byte: the sum of its field boosts, and how often the description holds it.
 * The two are separate because questions and keywords weigh them differently.
 * A word counts at most three times in a description, so that repeating it does not raise the rank.
 */
const maxBoost = 63
const maxRepeats = 3

export function boostOf(weight: number): number {
  return weight >> 2
}

export function repeatsOf(weight: number): number {
  return weight & 3
}

/** The weight after one more occurrence; a boost of zero means the description. */
export function moreWeight(weight: number, boost: number): number {
  if (boost === 0) return repeatsOf(weight) === maxRepeats ? weight : weight + 1
  return (Math.min(boostOf(weight) + boost, maxBoost) << 2) | repeatsOf(weight)
}

/** A match in a short name weighs more than one in a long name. */
const nameWeights = [0, 20, 16, 13, 11, 10]
const namespaceWeight = 6
const tagWeight = 5
const titleWeight = 4
/** Less than any word of the name. */
const aliasWeight = 3

/** Tokenizes a document: calls `count` for each token with its boost (0 in the description), and returns their number. */
export function readDocument(document: Document, count: (token: string, boost: number) => void): number {
  const tokens: string[] = []
  tokenize(document.name, tokens, maxNameTokens)
  const nameWeight = nameWeights[tokens.length] ?? 9
  const afterName = tokens.length
  tokenize(document.namespace, tokens, maxNameTokens * 2)
  const afterNamespace = tokens.length
  for (const tag of document.tags ?? []) tokenize(tag, tokens, maxNameTokens * 5)
  const afterTags = tokens.length
  if (document.title !== undefined) tokenize(document.title.slice(0, maxText), tokens, maxNameTokens * 6)
  const afterTitle = tokens.length
  if (document.aliases !== undefined && document.aliases.length > 0) {
    tokens.push(...aliasTokens(document.aliases, document.namespace))
  }
  const afterAliases = tokens.length
  tokenize(document.description.slice(0, maxText), tokens, maxDocumentTokens)
  let length = afterAliases
  for (let index = tokens.length - 1; index >= 0; index -= 1) {
    const token = tokens[index] ?? ''
    if (index < afterName) count(token, nameWeight)
    else if (index < afterNamespace) count(token, namespaceWeight)
    else if (index < afterTags) count(token, tagWeight)
    else if (index < afterTitle) count(token, titleWeight)
    else if (index < afterAliases) count(token, aliasWeight)
    else if (!isCommon(token)) {
      count(token, 0)
      length += 1
    }
  }
  return Math.min(length, 255)
}

/** The words of all aliases, each once, so that many aliases do not raise the rank; only foreign namespaces count. */
function aliasTokens(aliases: readonly string[], namespace: string): ReadonlySet<string> {
  const tokens: string[] = []
  for (const alias of aliases) {
    const added = alias.startsWith(`${namespace}:`) ? alias.slice(namespace.length + 1) : alias
    tokenize(added, tokens, maxNameTokens * 2)
  }
  return new Set(tokens)
}

/** Flags in a document's shape, above its length: ranked lower, and removed. */
export const loweredFlag = 256
export const removedFlag = 512

/**
 * The documents of an index by number. Each keeps its terms (`term << 8 | weight`), so that a removal updates the
 * frequencies exactly and a compaction needs no texts.
 */
export class Documents {
  readonly #numbers = new Map<string, number>()
  readonly keys: string[] = []
  prefixes = new Float64Array(256)
  /** Length in tokens (255 at most) and flags: the only data of a document that scoring reads. */
  shapes = new Uint16Array(256)
  #starts = new Uint32Array(257)
  #cells = new Uint32Array(4_096)
  /** Tokens in all live documents. */
  totalLength = 0

  /** Assigned numbers, including removed documents. */
  get end(): number {
    return this.keys.length
  }

  get live(): number {
    return this.#numbers.size
  }

  find(key: string): number | undefined {
    return this.#numbers.get(key)
  }

  /** Adds a document with its terms, the first `count` of `cells`. */
  add(key: string, shape: number, cells: Uint32Array, count: number): number {
    const number = this.keys.length
    if (number + 1 >= this.shapes.length) this.#grow()
    const start = this.#starts[number] ?? 0
    while (start + count > this.#cells.length) this.#cells = grown(this.#cells)
    for (let index = 0; index < count; index += 1) this.#cells[start + index] = cells[index] ?? 0
    this.#starts[number + 1] = start + count
    this.keys.push(key)
    this.prefixes[number] = keyPrefix(key)
    this.shapes[number] = shape
    this.#numbers.set(key, number)
    this.totalLength += shape & 255
    return number
  }

  /** The terms of a document; a view, valid until the next addition. */
  terms(number: number): Uint32Array {
    return this.#cells.subarray(this.#starts[number], this.#starts[number + 1])
  }

  /** Marks a document as removed; its number is reused after the next compaction. */
  remove(number: number): void {
    const shape = this.shapes[number] ?? 0
    this.totalLength -= shape & 255
    this.shapes[number] = shape | removedFlag
    this.#numbers.delete(this.keys[number] ?? '')
  }

  #grow(): void {
    this.shapes = grown(this.shapes)
    this.prefixes = grown(this.prefixes)
    this.#starts = grown(this.#starts)
  }
}
