/** A part of a page under one heading. */
export interface DocSection {
  /** Empty for the part under the page's title. */
  readonly anchor: string
  readonly heading: string
  /** Its text without markup. */
  readonly text: string
}

/** A page of the documentation. */
export interface DocPage {
  /** Path below the folder of the documentation, `runtimes/docker.md`. */
  readonly file: string
  readonly title: string
  readonly sections: readonly DocSection[]
}

const fence = /^\s*(`{3,}|~{3,})/

/** Reads a Markdown page: its title, and its sections down to the third level. */
export function readDocPage(file: string, markdown: string): DocPage {
  const anchors = createAnchors()
  let title = ''
  let open: string | undefined
  const sections: { anchor: string; heading: string; lines: string[] }[] = [{ anchor: '', heading: '', lines: [] }]
  for (const line of markdown.split('\n')) {
    const mark = fence.exec(line)?.[1]
    if (mark !== undefined && (open === undefined || open === mark)) {
      open = open === undefined ? mark : undefined
      continue
    }
    const [, level = '', text = ''] = (open === undefined ? /^(#{1,6})\s+(.*)$/.exec(line) : null) ?? []
    const heading = plainLine(text)
    const anchor = level === '' ? '' : anchors(text)
    if (level === '#' && title === '') title = heading
    else if (level.length === 2 || level.length === 3) sections.push({ anchor, heading, lines: [] })
    else sections.at(-1)?.lines.push(open === undefined ? plainLine(line) : line)
  }
  const shown = title === '' ? file : title
  return {
    file,
    title: shown,
    sections: sections.map(({ anchor, heading, lines }) => ({
      anchor,
      heading: heading === '' ? shown : heading,
      text: lines.join(' ').replaceAll(/\s+/g, ' ').trim(),
    })),
  }
}

/** Anchors of the headings of one page, as GitHub derives them: the second of a name gets `-1`. */
export function createAnchors(): (heading: string) => string {
  const seen = new Map<string, number>()
  return (heading) => {
    const anchor = anchorOf(heading)
    const count = seen.get(anchor) ?? 0
    seen.set(anchor, count + 1)
    return count === 0 ? anchor : `${anchor}-${count}`
  }
}

function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replace(/\s/g, '-')
}

const tableRule = /^\s*\|?[\s:|-]+\|?\s*$/

/** Stands in a line for a piece of code while the markup around it is removed. */
const codeMark = '\u{e000}'

/** A line without Markdown: links by their text, cells apart. Code keeps every character, such as `<id>`. */
export function plainLine(line: string): string {
  if (line.includes('-') && tableRule.test(line)) return ''
  const codes: string[] = []
  return line
    .replaceAll(/(`+)(.+?)\1(?!`)/g, (_all, _ticks: string, code: string) => {
      codes.push(code.trim().replaceAll('\\|', '|'))
      return `${codeMark}${codes.length - 1}${codeMark}`
    })
    .replaceAll(/!?\[([^\]]*)\]\([^)]*\)/g, '$1')
    .replaceAll(/<\/?[a-z][^>]*>/gi, '')
    .replaceAll(/(\*\*|__)(\S(?:.*?\S)?)\1/g, '$2')
    .replaceAll(/(?<!\\)\|/g, ' ')
    .replaceAll(/\\([|_*<>[\]])/g, '$1')
    .replace(/^\s*(?:[-*>]|\d+\.)\s+/, '')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&')
    .replaceAll(/\u{e000}(\d+)\u{e000}/gu, (_all, place: string) => codes[Number(place)] ?? '')
    .trim()
}
