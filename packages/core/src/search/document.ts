import { isCommon, tokenize } from './tokenize.ts'

/** What is found: its texts by field, under a key that is its own. */
export interface Document {
  readonly key: string
  readonly name: string
  readonly namespace: string
  readonly title?: string
  readonly tags?: readonly string[]
  /** Other names of the same, `namespace:name`. */
  readonly aliases?: readonly string[]
  readonly description: string
  /** Ranks lower than an equal one that is not. */
  readonly lowered?: boolean
}

/** Tokens and text that are looked at; the rest of a long description finds nothing. */
export const maxDocumentTokens = 255
const maxNameTokens = 16
const maxText = 4_000

/**
 * The weight of a term in a document is one byte: what its fields other than the description add up to, and how often
 * the description says it. The two are apart because a question weighs them differently than keywords do.
 * A word said often in a description counts three times at most, so that repeating it buys nothing.
 */
const maxBoost = 63
const maxRepeats = 3

export function boostOf(weight: number): number {
  return weight >> 2
}

export function repeatsOf(weight: number): number {
  return weight & 3
}

/** The weight after one more occurrence; a boost of zero is a word of the description. */
export function moreWeight(weight: number, boost: number): number {
  if (boost === 0) return repeatsOf(weight) === maxRepeats ? weight : weight + 1
  return (Math.min(boostOf(weight) + boost, maxBoost) << 2) | repeatsOf(weight)
}

/** A match in a short name says more than one in a long name. */
const nameWeights = [0, 20, 16, 13, 11, 10]
const namespaceWeight = 6
const tagWeight = 5
const titleWeight = 4
/** Less than any name of its own. */
const aliasWeight = 3

/** Reads a document's tokens: calls `count` for each with its boost, none in the description, and gives their number. */
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

/** The words of all aliases, each once, so that many aliases buy nothing; a namespace only where it is another. */
function aliasTokens(aliases: readonly string[], namespace: string): ReadonlySet<string> {
  const tokens: string[] = []
  for (const alias of aliases) {
    const added = alias.startsWith(`${namespace}:`) ? alias.slice(namespace.length + 1) : alias
    tokenize(added, tokens, maxNameTokens * 2)
  }
  return new Set(tokens)
}
