/** How many characters may stand for one, at most; more zeros before a number than this allows are nobody's writing. */
export const longestEntity = 20

/** The usual names of signs, then those of Latin-1 from the no-break space on, in order. */
const signs = {
  ...{ excl: '!', quot: '"', QUOT: '"', num: '#', dollar: '$', percnt: '%', amp: '&', AMP: '&', apos: "'", lpar: '(' },
  ...{ rpar: ')', ast: '*', midast: '*', plus: '+', comma: ',', period: '.', sol: '/', colon: ':', semi: ';', lt: '<' },
  ...{ LT: '<', equals: '=', gt: '>', GT: '>', quest: '?', commat: '@', lsqb: '[', lbrack: '[', bsol: '\\', rsqb: ']' },
  ...{ rbrack: ']', Hat: '^', lowbar: '_', UnderBar: '_', grave: '`', DiacriticalGrave: '`', lcub: '{', lbrace: '{' },
  ...{ verbar: '|', vert: '|', VerticalLine: '|', rcub: '}', rbrace: '}', Tab: '\t', NewLine: '\n' },
}
const latin =
  'nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro ' +
  'para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil ' +
  'Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave ' +
  'Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml ' +
  'igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute ' +
  'thorn yuml'
const named: ReadonlyMap<string, string> = new Map([
  ...Object.entries(signs),
  ...latin.split(' ').map((name, index): [string, string] => [name, String.fromCharCode(0xa0 + index)]),
])

// Without groups, which would cost more than all the rest.
const entity = /&(?:#(?:0{0,9}[1-9]\d{0,6}|[xX]0{0,9}[1-9a-fA-F][0-9a-fA-F]{0,5})|[A-Za-z][A-Za-z0-9]{1,15});?/g
/** What may go on as one. */
const begun = /&(?:#(?:\d{0,16}|[xX][0-9a-fA-F]{0,15})|[A-Za-z][A-Za-z0-9]{0,15})?$/

/**
 * Puts characters for what stands for them in a page, each looked at once; undefined when nothing does. Where the text
 * goes on (`more`), what may be the beginning of one at its end is left out.
 */
export function joinEntities(text: string, more: boolean): Joined | undefined {
  if (!text.includes('&')) return undefined
  const open = more ? (begun.exec(text.slice(-longestEntity))?.[0].length ?? 0) : 0
  const whole = text.slice(0, text.length - open)
  const joined = whole.replace(entity, (found) => characterOf(found))
  if (joined.length === text.length) return undefined
  let runs: Runs | undefined
  return {
    text: joined,
    place(index) {
      runs ??= runsOf(whole)
      const run = lineAt(runs.joined, index)
      return (runs.starts[run] ?? 0) + index - (runs.joined[run] ?? 0)
    },
  }
}

/** Where each entity begins, and what follows it: in the text, and in the joined text. */
interface Runs {
  readonly starts: readonly number[]
  readonly joined: readonly number[]
}

function runsOf(text: string): Runs {
  const [starts, joined] = [[0], [0]]
  let removed = 0
  for (const { index, 0: found } of text.matchAll(entity)) {
    const { length } = characterOf(found)
    starts.push(index, index + found.length)
    joined.push(index - removed, index - removed + length)
    removed += found.length - length
  }
  return { starts, joined }
}

/** The character, or the text as it is when it stands for none. */
function characterOf(whole: string): string {
  const end = whole.endsWith(';') ? whole.length - 1 : whole.length
  if (whole[1] !== '#') return named.get(whole.slice(1, end)) ?? whole
  const isHex = whole[2] === 'x' || whole[2] === 'X'
  const code = Number.parseInt(whole.slice(isHex ? 3 : 2, end), isHex ? 16 : 10)
  return code <= 0x10ffff ? String.fromCodePoint(code) : whole
}

/** A text without its line breaks, and the way back. */
interface Joined {
  readonly text: string
  /** Where a character of the joined text stands in the one that it came from. */
  place(index: number): number
}

/** A line break and the indentation behind it, also as it is written within JSON; a backslash at the end may begin one. */
const breaks = /(?:\r\n?|\n|\\r\\n|\\[rn])[ \t]{0,8}|\\$/g

/** Joins the lines of a text, as a reader of wrapped base64 does; undefined when there is only one. */
export function joinLines(text: string): Joined | undefined {
  if (!text.includes('\n') && !text.includes('\\') && !text.includes('\r')) return undefined
  const joined = text.replace(breaks, '')
  if (joined.length === text.length) return undefined
  let lines: Lines | undefined
  return {
    text: joined,
    place(index) {
      // The way back is seldom needed, and costs more than the joining.
      lines ??= linesOf(text)
      const line = lineAt(lines.joined, index)
      return (lines.starts[line] ?? 0) + index - (lines.joined[line] ?? 0)
    },
  }
}

/** Where each line begins: in the text, and in the joined text. */
interface Lines {
  readonly starts: readonly number[]
  readonly joined: readonly number[]
}

function linesOf(text: string): Lines {
  const [starts, joined] = [[0], [0]]
  let removed = 0
  for (const { index, 0: found } of text.matchAll(breaks)) {
    joined.push(index - removed)
    removed += found.length
    starts.push(index + found.length)
  }
  return { starts, joined }
}

/** The last line that begins at or before an index. */
function lineAt(begins: readonly number[], index: number): number {
  let [low, high] = [0, begins.length - 1]
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if ((begins[middle] ?? 0) <= index) low = middle
    else high = middle - 1
  }
  return low
}
