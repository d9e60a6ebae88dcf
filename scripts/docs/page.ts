import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createAnchors } from '../../packages/gantry/src/docs/sections.ts'

/** A fenced block of a page. */
export interface Fence {
  readonly page: string
  /** Line number of its first line of text. */
  readonly line: number
  readonly language: string
  /** Words after the language: `no-run`. */
  readonly marks: readonly string[]
  readonly text: string
  /** The expected output: the next fence, if only blank lines are between. */
  readonly next: Fence | undefined
}

/** A Markdown page in the parts that can be checked. */
export interface Page {
  /** Path from the root of the repository. */
  readonly file: string
  readonly fences: readonly Fence[]
  readonly links: readonly { readonly target: string; readonly line: number }[]
  /** Inline code that is a `gantry` command. */
  readonly commands: readonly { readonly text: string; readonly line: number }[]
  /** Anchors of its headings, as GitHub derives them. */
  readonly anchors: ReadonlySet<string>
}

const opening = /^(`{3,}|~{3,})\s*(\S*)\s*(.*)$/
const linkTarget = /\]\(\s*<?([^)>\s]+)>?(?:\s+"[^"]*")?\s*\)/g

export function readPage(root: string, file: string): Page {
  const lines = readFileSync(join(root, file), 'utf8').split('\n')
  const fences: { -readonly [Key in keyof Fence]: Fence[Key] }[] = []
  const links: { target: string; line: number }[] = []
  const commands: { text: string; line: number }[] = []
  const anchors = new Set<string>()
  const anchorOf = createAnchors()
  let onlyBlankSince = false
  for (let index = 0; index < lines.length; index++) {
    const line = lines[index] ?? ''
    const [, mark, language = '', rest = ''] = opening.exec(line) ?? []
    if (mark !== undefined) {
      const end = lines.findIndex((other, at) => at > index && other.trim() === mark)
      const last = end < 0 ? lines.length : end
      const marks = rest.split(/\s+/).filter(Boolean)
      const text = lines.slice(index + 1, last).join('\n')
      const fence = { page: file, line: index + 2, language, marks, text, next: undefined }
      const before = fences.at(-1)
      if (onlyBlankSince && before !== undefined) before.next = fence
      fences.push(fence)
      onlyBlankSince = true
      index = last
      continue
    }
    if (line.trim() !== '') onlyBlankSince = false
    const heading = /^#{1,6}\s+(.*)$/.exec(line)?.[1]
    if (heading !== undefined) anchors.add(anchorOf(heading))
    for (const [, text = ''] of line.matchAll(/`((?:npx )?gantry [^`]*)`/g)) commands.push({ text, line: index + 1 })
    for (const [, target = ''] of line.replace(/`[^`]*`/g, '').matchAll(linkTarget)) {
      links.push({ target, line: index + 1 })
    }
  }
  return { file, fences, links, commands, anchors }
}
