import { setImmediate as breathe } from 'node:timers/promises'
import { attributeOf, type Token, tokens } from './html-tokens.ts'

/** A page as a reader sees it. */
export interface PageText {
  readonly title: string | undefined
  readonly text: string
}

const blocks: ReadonlySet<string> = new Set([
  'address',
  'article',
  'aside',
  'blockquote',
  'body',
  'dd',
  'details',
  'dialog',
  'div',
  'dl',
  'dt',
  'fieldset',
  ...[
    'figcaption',
    'figure',
    'footer',
    'form',
    'header',
    'hgroup',
    'legend',
    'main',
    'menu',
    'nav',
    'option',
    'search',
  ],
  'section',
  'summary',
  'tbody',
  'tfoot',
  'thead',
  'tr',
])
/** Blocks with an empty line around them. */
const apart: ReadonlySet<string> = new Set([
  'p',
  'h1',
  'h2',
  'h3',
  'h4',
  'h5',
  'h6',
  'ul',
  'ol',
  'pre',
  'table',
  'blockquote',
  'hr',
])
/** Pieces that are written in one go: a few milliseconds' worth. */
const turn = 5_000
const deepestList = 10
const longestLink = 2_000

/**
 * The text of a page, in one pass over it: headings, lists and links as Markdown writes them, cells of a row one behind
 * the other, and nothing of scripts and styles. Links are made absolute by the page's own address.
 * Others get their turn in between, and the signal ends it.
 */
export async function htmlText(html: string, base: string, signal: AbortSignal): Promise<PageText> {
  const writer = createWriter(base)
  let count = 0
  for (const token of tokens(html)) {
    writer.take(token)
    count += 1
    if (count % turn === 0) await breathe(undefined, { signal })
  }
  return writer.end()
}

function createWriter(base: string) {
  const lines: string[] = []
  /** Of each open list how many items it had, or undefined when they are not counted. */
  const lists: (number | undefined)[] = []
  let line = ''
  let gap = 0
  let space = false
  let verbatim = 0
  let title: string | undefined
  let titled = false
  let link: string | undefined

  const leaveGap = (): void => {
    for (; gap > 0; gap -= 1) lines.push('')
  }
  const put = (text: string): void => {
    if (line === '') leaveGap()
    if (space && line !== '') line += ' '
    space = false
    line += text
  }
  const breakLine = (empty: number): void => {
    const written = line.trimEnd()
    if (written !== '') lines.push(written)
    if (lines.length > 0) gap = Math.max(written === '' ? gap : 0, empty)
    line = ''
    space = false
  }
  const words = (text: string): void => {
    if (/^\s/.test(text)) space = true
    const joined = text.trim().replace(/\s+/g, ' ')
    if (joined !== '') put(joined)
    if (/\s$/.test(text)) space = true
  }
  const prewritten = (text: string): void => {
    const [first = '', ...rest] = text.split('\n')
    if (line === '') leaveGap()
    line += first
    for (const next of rest) {
      lines.push(line)
      line = next
    }
  }
  const item = (): void => {
    breakLine(0)
    const depth = Math.min(lists.length, deepestList)
    const count = lists.length === 0 ? undefined : lists[lists.length - 1]
    if (count !== undefined) lists[lists.length - 1] = count + 1
    put(`${'  '.repeat(Math.max(0, depth - 1))}${count === undefined ? '-' : `${count}.`}`)
    space = true
  }
  const opened: { readonly [name: string]: (attributes: string) => void } = {
    title() {
      titled = title === undefined
    },
    br: () => breakLine(0),
    hr() {
      put('---')
      breakLine(1)
    },
    li: item,
    ul: () => void lists.push(undefined),
    ol: () => void lists.push(1),
    pre() {
      verbatim += 1
    },
    img(attributes) {
      words(attributeOf(attributes, 'alt') ?? '')
    },
    a(attributes) {
      link = absolute(attributeOf(attributes, 'href'), base)
      if (link !== undefined) put('[')
    },
    ...Object.fromEntries([1, 2, 3, 4, 5, 6].map((level) => [`h${level}`, () => words(`${'#'.repeat(level)} `)])),
  }
  const closed: { readonly [name: string]: () => void } = {
    title() {
      titled = false
    },
    ul: () => void lists.pop(),
    ol: () => void lists.pop(),
    pre() {
      verbatim = Math.max(0, verbatim - 1)
    },
    a() {
      if (link === undefined) return
      const held = space
      space = false
      put(`](${link})`)
      space = held
      link = undefined
    },
    td: () => put(' |'),
    th: () => put(' |'),
  }
  return {
    take(token: Token): void {
      if (token.kind === 'text') {
        if (titled) title = `${title ?? ''}${token.text}`.slice(0, 1_000)
        else if (verbatim > 0) prewritten(token.text)
        else words(token.text)
        return
      }
      const { name } = token
      if (apart.has(name)) breakLine(lists.length > 0 && name !== 'pre' ? 0 : 1)
      else if (blocks.has(name)) breakLine(0)
      if (token.kind === 'close') closed[name]?.()
      else if (Object.hasOwn(opened, name)) opened[name]?.(token.attributes)
    },
    end(): PageText {
      breakLine(0)
      return { title: title?.trim().replace(/\s+/g, ' ') || undefined, text: lines.join('\n') }
    },
  }
}

/** Where a link leads, when a reader could go there. */
function absolute(href: string | undefined, base: string): string | undefined {
  if (href === undefined || href.length > longestLink || href.startsWith('#')) return undefined
  const url = URL.parse(href.trim(), base)
  return url !== null && /^(?:https?|mailto):$/.test(url.protocol) ? url.href : undefined
}
