import { tokenize } from '@gantry/core/internal/search/tokenize'
import { clean } from './prepare.ts'

/** A parsed query. */
export interface ParsedQuery {
  /** A document matches any of them; more matches rank higher. */
  readonly words: readonly string[]
  /** Each must occur, with its words in this order. */
  readonly phrases: readonly string[]
  /** None of these may occur. */
  readonly without: readonly string[]
}

const mostUnits = 1_000
const mostWords = 32
const mostConditions = 8

/** Parses a query. Every text is valid; parts over the limits are ignored. */
export function parseQuery(query: string): ParsedQuery {
  const words = new Set<string>()
  const phrases: string[] = []
  const without: string[] = []
  for (const [, minus, quoted, plain] of clean(query).slice(0, mostUnits).toWellFormed().matchAll(pieces)) {
    const text = (quoted ?? plain ?? '').toLowerCase()
    if (!/[\p{L}\p{N}]/u.test(text)) continue
    if (minus === '-') {
      if (without.length < mostConditions) without.push(text)
      continue
    }
    if (quoted !== undefined && phrases.length < mostConditions) phrases.push(text)
    for (const word of text.split(/\s+/)) if (words.size < mostWords) words.add(word)
  }
  return { words: [...words], phrases, without }
}

const pieces = /(-?)(?:"([^"]*)"|([^\s"]+))/g

/** Whether a text contains all phrases of a query and none of its excluded words. */
export function meetsConditions({ phrases, without }: ParsedQuery, text: string): boolean {
  if (phrases.length === 0 && without.length === 0) return true
  const own = ` ${plainWords(text)} `
  const holds = (part: string): boolean => own.includes(` ${plainWords(part)} `)
  return phrases.every(holds) && !without.some(holds)
}

/** The words of a text as an index compares them, in their order; of scripts without spaces, pairs of characters. */
export function plainWords(text: string): string {
  const tokens: string[] = []
  tokenize(text, tokens, 2_000)
  return tokens.join(' ')
}
