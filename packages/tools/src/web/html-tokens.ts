/** A piece of a page: decoded text, or a tag by its name in lower case. */
export type Token =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'open'; readonly name: string; readonly attributes: string }
  | { readonly kind: 'close'; readonly name: string }

/** Elements whose content is not markup, or nothing that a reader sees. */
const skipped: ReadonlySet<string> = new Set([
  'script',
  'style',
  'template',
  'noscript',
  'svg',
  'math',
  'iframe',
  'object',
  'canvas',
  'noembed',
  'xmp',
])

/**
 * The pieces of a page, in one pass. Every search for an end either moves on or ends the page, so that the time is
 * linear in the length of any input: an element that is never closed takes the rest, as in a browser.
 */
export function* tokens(html: string): Generator<Token, void> {
  const lower = html.toLowerCase()
  // Some characters grow in lower case; then offsets in one text are not offsets in the other.
  const folded = lower.length === html.length ? lower : html
  for (let at = 0; at < html.length; ) {
    const start = html.indexOf('<', at)
    if (start === -1) {
      yield text(html.slice(at))
      return
    }
    if (start > at) yield text(html.slice(at, start))
    const next = html.charCodeAt(start + 1)
    if (next === 0x21 || next === 0x3f) {
      at = afterDeclaration(html, start)
      continue
    }
    const tag = tagAt(html, start)
    if (tag === undefined) {
      at = start + 1
      while (html.charCodeAt(at) === 0x3c && html.charCodeAt(at + 1) === 0x3c) at += 1
      yield text(html.slice(start, at))
      continue
    }
    at = tag.end
    if (tag.end > html.length) return
    if (tag.closes) {
      yield { kind: 'close', name: tag.name }
      continue
    }
    yield { kind: 'open', name: tag.name, attributes: tag.attributes }
    if (!skipped.has(tag.name) || tag.attributes.endsWith('/')) continue
    const close = folded.indexOf(`</${tag.name}`, at)
    at = close === -1 ? html.length : close
  }
}

function text(raw: string): Token {
  return { kind: 'text', text: decodeEntities(raw) }
}

/** Behind a comment, a doctype or an instruction. */
function afterDeclaration(html: string, start: number): number {
  const [mark, skip] = html.startsWith('<!--', start) ? ['-->', 4] : ['>', 2]
  const end = html.indexOf(mark, start + skip)
  return end === -1 ? html.length : end + mark.length
}

interface Tag {
  readonly name: string
  readonly closes: boolean
  readonly attributes: string
  /** Behind the tag; beyond the page when it is never closed. */
  readonly end: number
}

/** The tag that begins here, if one does; a `>` within quotes does not end it. */
function tagAt(html: string, start: number): Tag | undefined {
  const closes = html.charCodeAt(start + 1) === 0x2f
  tagName.lastIndex = start + (closes ? 2 : 1)
  const name = tagName.exec(html)?.[0]
  if (name === undefined) return undefined
  const from = start + (closes ? 2 : 1) + name.length
  let quote = 0
  for (let at = from; at < html.length; at += 1) {
    const code = html.charCodeAt(at)
    if (quote !== 0) {
      if (code === quote) quote = 0
    } else if (code === 0x22 || code === 0x27) {
      if (html.charCodeAt(at - 1) === 0x3d) quote = code
    } else if (code === 0x3e) {
      return { name: name.toLowerCase(), closes, attributes: html.slice(from, at), end: at + 1 }
    }
  }
  return { name, closes, attributes: '', end: html.length + 1 }
}

const tagName = /[A-Za-z][A-Za-z0-9-]{0,40}/y

/** The value of an attribute, with its characters as they are meant. */
export function attributeOf(attributes: string, name: string): string | undefined {
  const found = new RegExp(`(?:^|\\s)${name}\\s*=\\s*(?:"([^"]*)"|'([^']*)'|([^\\s"'>]+))`, 'i').exec(
    attributes.slice(0, 8_192),
  )
  const value = found?.[1] ?? found?.[2] ?? found?.[3]
  return value === undefined ? undefined : decodeEntities(value)
}

/** Common character references; others are left unchanged. */
const named: ReadonlyMap<string, string> = new Map(
  Object.entries({
    amp: '&',
    lt: '<',
    gt: '>',
    quot: '"',
    apos: "'",
    nbsp: ' ',
    copy: '©',
    reg: '®',
    trade: '™',
    deg: '°',
    hellip: '…',
    ndash: '–',
    mdash: '—',
    lsquo: '‘',
    rsquo: '’',
    sbquo: '‚',
    ldquo: '“',
    rdquo: '”',
    bdquo: '„',
    laquo: '«',
    raquo: '»',
    lsaquo: '‹',
    rsaquo: '›',
    bull: '•',
    middot: '·',
    sect: '§',
    para: '¶',
    dagger: '†',
    euro: '€',
    pound: '£',
    yen: '¥',
    cent: '¢',
    times: '×',
    divide: '÷',
    plusmn: '±',
    frac12: '½',
    frac14: '¼',
    larr: '←',
    rarr: '→',
    uarr: '↑',
    darr: '↓',
    harr: '↔',
    rArr: '⇒',
    hArr: '⇔',
    check: '✓',
    infin: '∞',
    le: '≤',
    ge: '≥',
    ne: '≠',
    asymp: '≈',
    minus: '−',
    micro: 'µ',
    sup1: '¹',
    sup2: '²',
    sup3: '³',
    ordm: 'º',
    auml: 'ä',
    ouml: 'ö',
    uuml: 'ü',
    Auml: 'Ä',
    Ouml: 'Ö',
    Uuml: 'Ü',
    szlig: 'ß',
    eacute: 'é',
    egrave: 'è',
    ...{
      ecirc: 'ê',
      euml: 'ë',
      aacute: 'á',
      agrave: 'à',
      acirc: 'â',
      atilde: 'ã',
      aring: 'å',
      aelig: 'æ',
      ccedil: 'ç',
    },
    ...{
      iacute: 'í',
      igrave: 'ì',
      icirc: 'î',
      iuml: 'ï',
      ntilde: 'ñ',
      oacute: 'ó',
      ograve: 'ò',
      ocirc: 'ô',
      otilde: 'õ',
    },
    ...{
      oslash: 'ø',
      uacute: 'ú',
      ugrave: 'ù',
      ucirc: 'û',
      yacute: 'ý',
      Eacute: 'É',
      Agrave: 'À',
      Aring: 'Å',
      AElig: 'Æ',
    },
    Ccedil: 'Ç',
    Ntilde: 'Ñ',
    Oslash: 'Ø',
    ensp: ' ',
    emsp: ' ',
    thinsp: ' ',
    shy: '',
    zwj: '',
    zwnj: '',
  }),
)

/** Decodes character references in one pass. */
function decodeEntities(text: string): string {
  if (!text.includes('&')) return text
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9a-fA-F]{1,6})|([A-Za-z][A-Za-z0-9]{1,30}));?/g,
    (whole, decimal, hex, name) =>
      name === undefined
        ? character(hex === undefined ? Number(decimal) : Number.parseInt(hex, 16))
        : (named.get(name) ?? whole),
  )
}

function character(code: number): string {
  const sound = code > 0 && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff)
  return sound ? String.fromCodePoint(code) : '\ufffd'
}
