import { TextIndex } from '@gantry/core/internal/search/text-index'
import type { DocPage } from './sections.ts'

/** A section that a search found. */
export interface DocHit {
  readonly file: string
  readonly title: string
  readonly heading: string
  readonly anchor: string
  /** The part of its text around the first word that was searched for. */
  readonly excerpt: string
}

export interface DocSearch {
  /** The best sections, at most two of a page. */
  search(words: string, limit: number): readonly DocHit[]
}

/** The index reads so much of a text; a longer section is several documents. */
const pieceLength = 1_200
const mostOfPage = 2
const excerptLength = 160
/** Signatures and records of decisions are found after everything that explains how to use a thing. */
const secondary = /^(?:api|decisions)\//
/** Longer queries are cut. */
const mostQuery = 400

/** An index of pages by their sections. The terminal and the site search with the same one. */
export function createDocSearch(pages: readonly DocPage[]): DocSearch {
  const index = new TextIndex()
  const found = new Map<string, DocHit & { readonly text: string }>()
  for (const { file, title, sections } of pages) {
    for (const [place, { anchor, heading, text }] of sections.entries()) {
      for (const [piece, description] of pieces(text).entries()) {
        const key = `${file}#${place}~${piece}`
        found.set(key, { file, title, heading, anchor, excerpt: '', text: description })
        index.add({ key, name: heading, namespace: file.replace(/\.md$/, ''), title, description })
      }
    }
  }
  return {
    search(words, limit) {
      const query = words.slice(0, mostQuery)
      const plan = index.plan(query)
      const byPage = new Map<string, number>()
      const shown = new Set<string>()
      const allow =
        (isSecondary: boolean) =>
        (key: string): boolean => {
          if (secondary.test(key) !== isSecondary) return false
          const hit = found.get(key)
          const count = byPage.get(hit?.file ?? '') ?? 0
          const section = `${hit?.file}#${hit?.anchor}`
          if (hit === undefined || count >= mostOfPage || shown.has(section)) return false
          byPage.set(hit.file, count + 1)
          shown.add(section)
          return true
        }
      const first = index.search(plan, undefined, limit, allow(false))
      const rest = index.search(plan, undefined, limit - first.length, allow(true))
      return [...first, ...rest].flatMap(({ key }) => {
        const hit = found.get(key)
        if (hit === undefined) return []
        const { text, ...rest } = hit
        return [{ ...rest, excerpt: excerptOf(text, query) }]
      })
    },
  }
}

/** Cuts a text at spaces; an empty text is one empty piece, so that its heading is found. */
function pieces(text: string): readonly string[] {
  const cut: string[] = []
  for (let rest = text; rest !== '' || cut.length === 0; ) {
    const end = rest.length <= pieceLength ? rest.length : Math.max(rest.lastIndexOf(' ', pieceLength), 1)
    cut.push(rest.slice(0, end))
    rest = rest.slice(end).trimStart()
  }
  return cut
}

function excerptOf(text: string, query: string): string {
  if (text.length <= excerptLength) return text
  const lower = text.toLowerCase()
  const places = query
    .toLowerCase()
    .split(/[^\p{L}\p{N}]+/u)
    .filter((word) => word.length > 2)
    .map((word) => lower.indexOf(word))
    .filter((place) => place >= 0)
  const first = Math.max(0, Math.min(...(places.length === 0 ? [0] : places)) - 40)
  const start = first === 0 ? 0 : text.indexOf(' ', first) + 1
  const end = start + excerptLength >= text.length ? text.length : text.lastIndexOf(' ', start + excerptLength)
  return `${start === 0 ? '' : '… '}${text.slice(start, Math.max(end, start + 1))}${end === text.length ? '' : ' …'}`
}
