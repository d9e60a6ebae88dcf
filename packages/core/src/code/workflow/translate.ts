import type { ProgramFault } from '../../runtimes/runtime.ts'
import { workflowPrelude } from './functions.ts'
import { readWorkflow } from './read.ts'
import type { Block, Expression, SourcePosition, Statement, Workflow } from './tokens.ts'

/** A workflow, translated to a JavaScript program over tools. */
export interface TranslatedWorkflow {
  readonly code: string
  /** Maps a fault of the program to positions in the workflow. */
  original(fault: ProgramFault): ProgramFault
}

/** A workflow for the compiler: without its helpers, and with the mapping to its own positions. */
export function checkedWorkflow(source: string): Script {
  return writeWorkflow(readWorkflow(source), '')
}

/**
 * Translates a workflow. Only the grammar of docs/code-mode.md is translated; everything else is refused.
 * Throws CODE_INVALID with line, column and frame.
 */
export function translateWorkflow(source: string): TranslatedWorkflow {
  const script = writeWorkflow(readWorkflow(source))
  return {
    code: script.text,
    original({ line, column, stack, ...rest }) {
      const found = [...`${stack ?? ''} main.js:${line ?? 0}:${column ?? 0}`.matchAll(/main\.js:(\d+):(\d+)/g)]
      const places = found.map(([, at, of]) => script.source({ line: Number(at), column: Number(of) }))
      const [place] = places.filter((each) => each !== undefined)
      return { ...rest, ...place }
    },
  }
}

type Of<Kind extends string, From> = Extract<From, { readonly kind: Kind }>

/** Operators that JavaScript has too, some after a check of both operands. */
const numeric: ReadonlySet<string> = new Set(['-', '*', '/', '%'])
const plain: { readonly [sign: string]: string } = { '==': '===', '!=': '!==', '&&': '&&', '||': '||', '??': '??' }
const helpers: { readonly [sign: string]: string } = {
  '+': '$add',
  '<': '$less',
  '>': '$more',
  '<=': '!$more',
  '>=': '!$less',
  in: '$in',
}

/** Functions without a value: calling one as a statement does not change the value of the program. */
const withoutValue: ReadonlySet<string> = new Set(['print', 'sleep'])

/** A workflow as JavaScript. `$r` is the value of its last statement, the output unless it returns another one. Variables of the author get the prefix `v$`, so that they cannot collide with names of JavaScript or of the helpers. */
export function writeWorkflow({ body, variables }: Workflow, prelude = workflowPrelude): Script {
  const declared = [...variables].map((name) => `v$${name}=null`).join(',')
  return joinScript([prelude, declared === '' ? '' : `let ${declared};`, 'let $r=null;', block(body), 'return $r;'])
}

function block(statements: Block): Piece {
  return statements.map((statement) => [statement.at, written(statement)])
}

function written(statement: Statement): Piece {
  switch (statement.kind) {
    case 'set':
      return [`$r=v$${statement.name}=`, value(statement.value), ';']
    case 'do':
      return [hasNoValue(statement.value) ? '' : '$r=', value(statement.value), ';']
    case 'return':
      return statement.value === undefined ? 'return null;' : ['return(', value(statement.value), ');']
    case 'break':
    case 'continue':
      return `${statement.kind} $l${statement.loop};`
    case 'if':
      return ['if(', value(statement.test), '){', block(statement.then), '}else{', block(statement.otherwise), '}']
    case 'while':
      return [`$l${statement.loop}:while(`, value(statement.test), '){', block(statement.body), '}']
    case 'for':
      return each(statement)
    case 'retry':
      return retry(statement)
    case 'try': {
      const kept = statement.name === undefined ? '' : `v$${statement.name}=$error($e);`
      return ['try{', block(statement.body), `}catch($e){${kept}`, block(statement.caught), '}']
    }
  }
}

function hasNoValue(made: Expression): boolean {
  return made.kind === 'call' && withoutValue.has(made.name)
}

function each({ loop, index, name, list, body }: Of<'for', Statement>): Piece {
  const head = `).entries()){${index === undefined ? '' : `v$${index}=$i;`}v$${name}=$x;`
  return [`$l${loop}:for(const[$i,$x]of $list(`, value(list), head, block(body), '}']
}

function retry({ times, delay, body }: Of<'retry', Statement>): Piece {
  const wait: Piece = delay === undefined ? '0' : ['$num(', value(delay), ')']
  const again = 'break}catch($e){if($n>=$t)throw $e;await $retry($n,$d,$e)}}}'
  return ['{const $t=$num(', value(times), '),$d=', wait, ';for(let $n=1;;$n++){try{', block(body), again]
}

function value(expression: Expression): Piece {
  return [expression.at, bare(expression)]
}

function bare(made: Expression): Piece {
  switch (made.kind) {
    case 'constant':
      return JSON.stringify(made.value)
    case 'variable':
      return `v$${made.name}`
    case 'list':
      return ['[', made.members.map((member) => [value(member), ',']), ']']
    case 'object':
      return ['({', made.members.map(({ at, key, value: inner }) => [at, `${keyText(key)}:`, value(inner), ',']), '})']
    case 'member':
      return ['$get(', value(made.of), ',', value(made.key), ')']
    case 'call':
      return called(made)
    case 'not':
      return ['(!', value(made.of), ')']
    case 'minus':
      return ['(-$num(', value(made.of), '))']
    case 'pair':
      return pair(made)
    case 'choice':
      return ['(', value(made.test), '?', value(made.then), ':', value(made.otherwise), ')']
  }
}

/** The key of a member: computed if it is not a plain word, and for __proto__, which would set the prototype otherwise. */
function keyText(key: string): string {
  return key !== '__proto__' && /^[A-Za-z_]\w*$/.test(key) ? key : `[${JSON.stringify(key)}]`
}

function called({ name, args }: Of<'call', Expression>): Piece {
  if (name !== 'all') return [`(await $f_${name}(`, args.map((each) => [value(each), ',']), '))']
  return ['(await Promise.all([', args.map((each) => ['(async()=>(', value(each), '))(),']), ']))']
}

function pair({ sign, left, right }: Of<'pair', Expression>): Piece {
  if (numeric.has(sign)) return ['($num(', value(left), `)${sign}$num(`, value(right), '))']
  const same = plain[sign]
  if (same !== undefined) return ['(', value(left), same, value(right), ')']
  return [`${helpers[sign]}(`, value(left), ',', value(right), ')']
}

/** A script in pieces: text without line breaks, and the source positions of the text after them. */
type Piece = string | SourcePosition | readonly Piece[]

/** A position in the script, counted from 1, and its position in the source. */
interface Mark {
  readonly at: SourcePosition
  readonly from: SourcePosition
}

/** A script with the lines of its source. */
export interface Script {
  readonly text: string
  /** The source position of a position in the script; undefined before the first mark. */
  source(at: SourcePosition): SourcePosition | undefined
}

function joinScript(pieces: Piece): Script {
  const parts: string[] = []
  const marks: Mark[] = []
  let line = 1
  let column = 1
  const add = (piece: Piece): void => {
    if (typeof piece === 'string') {
      parts.push(piece)
      column += piece.length
    } else if (isPosition(piece)) {
      for (; line < piece.line; line++, column = 1) parts.push('\n')
      marks.push({ at: { line, column }, from: { line: piece.line, column: piece.column } })
    } else {
      for (const each of piece) add(each)
    }
  }
  add(pieces)
  return {
    text: parts.join(''),
    source: (place) => lastBefore(marks, place)?.from,
  }
}

/** Binary search: marks are sorted, and a stack or a list of diagnostics needs many lookups. */
function lastBefore(marks: readonly Mark[], place: SourcePosition): Mark | undefined {
  let low = 0
  let high = marks.length
  while (low < high) {
    const middle = (low + high) >>> 1
    const mark = marks[middle]
    if (mark !== undefined && isBefore(mark.at, place)) low = middle + 1
    else high = middle
  }
  return marks[low - 1]
}

function isPosition(piece: Exclude<Piece, string>): piece is SourcePosition {
  return !Array.isArray(piece)
}

function isBefore(one: SourcePosition, other: SourcePosition): boolean {
  return one.line < other.line || (one.line === other.line && one.column <= other.column)
}
