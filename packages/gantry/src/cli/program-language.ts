/** Enough of a program to tell its language by. */
const mostCharacters = 20_000

/**
 * The language of a program without a known extension, by what only one language has; undefined when nothing in it
 * speaks for workflow or Python. Comments and texts do not count, and the time grows with the length only.
 */
export function languageIn(code: string): 'python' | 'workflow' | undefined {
  const shown = code.slice(0, mostCharacters)
  const [first = ''] = shown.trimStart().split('\n', 1)
  if (first.startsWith('#!')) return /\bpython/.test(first) ? 'python' : undefined
  const signs = createSigns()
  const tokens = tokensOf(shown, signs)
  if (first.startsWith('#')) signs.python.add('comment')
  if (isWorkflow(tokens)) return 'workflow'
  const opened: Opened[] = []
  for (let at = 0; at < tokens.length; at += 1) {
    const near = nearOf(tokens, at)
    addSigns(near, opened, signs)
    if (near.here === '(' || near.here === '[' || near.here === '{') {
      opened.push({ sign: near.here, isCall: near.here === '(' && isName(near.before) && !headWords.has(near.before) })
    } else if (near.here === ')' || near.here === ']' || near.here === '}') opened.pop()
  }
  for (const line of linesOf(tokens)) addLineSigns(line, signs)
  if (isPlain(tokens, signs)) signs.python.add('assignment')
  return signs.python.size > signs.script.size ? 'python' : undefined
}

/** Signs of Python, and of JavaScript and TypeScript; each kind of sign counts once. */
interface Signs {
  readonly python: Set<string>
  readonly script: Set<string>
}

function createSigns(): Signs {
  return { python: new Set(), script: new Set() }
}

interface Opened {
  readonly sign: string
  /** Whether it holds the arguments of a call. */
  readonly isCall: boolean
}

const word = /[\p{L}_$][\p{L}\p{N}_$]*/uy
const sign = /:=|=>|->|===|!==|==|!=|<=|>=|&&|\|\||\*\*|\?\?|[^\s]/uy
const digits = /\d[\w.]*/y
/** Stands for any text. */
const text = '""'
const textPrefixes = new Set(['f', 'r', 'b', 'u', 'rb', 'br', 'fr', 'rf'])

/** Words, signs, texts and ends of lines, without comments; comments and texts of one language only are noted. */
function tokensOf(code: string, signs: Signs): string[] {
  const tokens: string[] = []
  let at = 0
  const match = (pattern: RegExp): string | undefined => {
    pattern.lastIndex = at
    return pattern.exec(code)?.[0]
  }
  /** Where what begins here ends: after `end`, or at the end of the program. */
  const after = (end: string, from: number): number => {
    const found = code.indexOf(end, from)
    return found < 0 ? code.length : found + end.length
  }
  const lineEnd = (): number => {
    const found = code.indexOf('\n', at)
    return found < 0 ? code.length : found
  }
  while (at < code.length) {
    const here = code.charAt(at)
    const two = code.slice(at, at + 2)
    const three = code.slice(at, at + 3)
    if (here === '\n') {
      tokens.push(here)
      at += 1
    } else if (/\s/.test(here)) at += 1
    else if (here === '#' && code[at - 1] !== '.') {
      // A private field of JavaScript has its name right after the sign.
      if (/\s/.test(code[at + 1] ?? '\n')) signs.python.add('comment')
      at = lineEnd()
    } else if (two === '//') {
      // At the start of a line this is a comment; after an operand it may be a division of Python.
      if (tokens.length === 0 || tokens.at(-1) === '\n') signs.script.add('comment')
      at = lineEnd()
    } else if (two === '/*') {
      signs.script.add('comment')
      at = after('*/', at + 2)
    } else if (three === '"""' || three === "'''") {
      signs.python.add('text of many lines')
      tokens.push(text)
      at = after(three, at + 3)
    } else if (here === '`') {
      signs.script.add('template')
      tokens.push(text)
      at = textEnd(code, at, false)
    } else if (here === '"' || here === "'") {
      tokens.push(text)
      at = textEnd(code, at, true)
    } else {
      const found = match(word) ?? match(digits) ?? match(sign) ?? here
      at += found.length
      const isPrefix = textPrefixes.has(found.toLowerCase()) && (code[at] === '"' || code[at] === "'")
      if (isPrefix) signs.python.add('prefix of a text')
      else tokens.push(found)
    }
  }
  return tokens
}

/** Where the text that begins at `from` ends; one in plain quotes ends with its line at the latest. */
function textEnd(code: string, from: number, inLine: boolean): number {
  const quote = code[from]
  for (let at = from + 1; at < code.length; at += 1) {
    const here = code[at]
    if (here === '\\') at += 1
    else if (here === quote) return at + 1
    else if (inLine && here === '\n') return at
  }
  return code.length
}

/** `name :=` at the start of a statement; the one of Python stands in brackets. */
function isWorkflow(tokens: readonly string[]): boolean {
  let depth = 0
  return tokens.some((token, at) => {
    if (token === '(' || token === '[') depth += 1
    else if (token === ')' || token === ']') depth = Math.max(0, depth - 1)
    const before = tokens[at - 2] ?? '\n'
    return token === ':=' && depth === 0 && isName(tokens[at - 1]) && ['\n', '{', '}', ';'].includes(before)
  })
}

interface Near {
  readonly before: string
  readonly here: string
  readonly next: string
}

function nearOf(tokens: readonly string[], at: number): Near {
  const of = (index: number): string => tokens[index] ?? '\n'
  return { before: of(at - 1), here: of(at), next: of(at + 1) }
}

/** Words before a bracket that holds no arguments. */
const headWords = new Set(['if', 'for', 'while', 'switch', 'catch', 'function', 'return', 'await', 'with', 'in', 'of'])
const constants = new Set(['None', 'True', 'False'])
const scriptSigns = new Set(['=>', '===', '!==', '&&', '||', '??'])
const declaring = new Set(['const', 'let', 'var', 'function', 'new', 'typeof', 'interface', 'enum'])
const beforeLambda = new Set(['=', '(', 'return', ':', ',', '[', '\n'])

function addSigns({ before, here, next }: Near, opened: readonly Opened[], { python, script }: Signs): void {
  const inside = opened.at(-1)
  const isStart = before === '(' || before === ','
  if (constants.has(here) && before !== '.' && next !== ':' && next !== '=') python.add('constant')
  if (here === 'lambda' && beforeLambda.has(before) && (isName(next) || (next === ':' && inside?.sign !== '{')))
    python.add('lambda')
  if (inside?.isCall === true && isStart && isName(here) && next === '=') python.add('named argument')
  if (here === '**' && isStart) python.add('unpacking')
  if (here === '*' && before === '(' && isName(next)) python.add('unpacking')
  if (here === '->') python.add('type of a function')
  if ((here === '[' && next === ':') || (here === ':' && next === ']')) python.add('slice')
  if (here === 'for' && inside !== undefined && inside.sign !== '{' && isName(next)) python.add('comprehension')
  if (here === 'for' && inside?.sign === '{' && before !== '{' && before !== '\n' && isName(next) && next !== 'await')
    python.add('comprehension')
  if (
    here === 'if' &&
    before !== '\n' &&
    (isName(before) || /[\w)\]"]$/.test(before)) &&
    before !== 'else' &&
    next !== '('
  )
    python.add('choice')
  if ((here === 'not' && next === 'in') || (here === 'is' && (next === 'not' || constants.has(next))))
    python.add('operator')
  if (scriptSigns.has(here)) script.add('operator')
  if (declaring.has(here) && before !== '.' && (isName(next) || next === '{' || next === '[')) script.add('declaration')
  if (here === 'function' && next === '(') script.add('declaration')
  if (here === ')' && next === '{') script.add('block')
  if (here === '!' && (isName(next) || next === '(')) script.add('not')
}

const headsOfBlocks = new Set([
  'def',
  'class',
  'for',
  'while',
  'if',
  'elif',
  'else',
  'with',
  'try',
  'except',
  'finally',
])
const pythonStarts = new Set(['def', 'elif', 'except', 'raise', 'del', 'global', 'nonlocal', 'assert'])
const labelled = new Set(['for', 'while', 'do', 'switch', 'if', 'return', 'break'])
const afterAnnotation = new Set(['=', '[', '|', '.', undefined])

interface Line {
  readonly tokens: readonly string[]
  /** Whether it stands in brackets that an earlier line opened. */
  readonly isInside: boolean
}

function* linesOf(tokens: readonly string[]): Generator<Line> {
  let line: string[] = []
  let depth = 0
  let isInside = false
  for (const token of [...tokens, '\n']) {
    if (token === '\n') {
      if (line.length > 0) yield { tokens: line, isInside }
      line = []
      isInside = depth > 0
      continue
    }
    line.push(token)
    if (token === '(' || token === '[' || token === '{') depth += 1
    else if (token === ')' || token === ']' || token === '}') depth = Math.max(0, depth - 1)
  }
}

function addLineSigns({ tokens, isInside }: Line, { python, script }: Signs): void {
  const words = tokens[0] === 'async' ? tokens.slice(1) : tokens
  const [first = '', second = '', third = '', fourth] = words
  const last = words.at(-1)
  if (last === ';') script.add('semicolon')
  if (isInside) return
  if (headsOfBlocks.has(first) && last === ':') python.add('head of a block')
  if (pythonStarts.has(first) && isName(second)) python.add('statement')
  if (first === 'pass' && words.length === 1) python.add('statement')
  if (first === 'for' && isName(second) && second !== 'await' && words.includes('in') && !words.includes('{'))
    python.add('loop')
  if (
    (first === 'if' || first === 'while') &&
    second !== '(' &&
    words.includes(':') &&
    !words.includes('?') &&
    last !== '{'
  )
    python.add('head of a block')
  if (first === 'import' && isName(second) && !words.includes(text)) python.add('import')
  if (first === 'from' && words.includes('import')) python.add('import')
  const isAnnotated = second === ':' && isName(first) && isName(third) && !labelled.has(third)
  if (isAnnotated && first !== 'default' && first !== 'else' && first !== 'try' && afterAnnotation.has(fourth))
    python.add('annotation')
}

/** Whether names are assigned that nothing declares, without a semicolon and without a member that has no quotes. */
function isPlain(tokens: readonly string[], { script }: Signs): boolean {
  if (script.size > 0 || tokens.includes(';')) return false
  const endsMember = new Set([':', ',', '}'])
  if (tokens.some((token, at) => token === '{' && isName(tokens[at + 1]) && endsMember.has(tokens[at + 2] ?? ''))) {
    return false
  }
  return tokens.some((token, at) => token === '=' && isName(tokens[at - 1]) && (tokens[at - 2] ?? '\n') === '\n')
}

function isName(token: string | undefined): token is string {
  return token !== undefined && /^[\p{L}_$]/u.test(token)
}
