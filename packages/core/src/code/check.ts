import { type Identity, type ProgramLanguage, type Tool, ToolError } from '@gantry/contract'
import type { InnerCalls } from '../backends/backend.ts'
import { type DeclaredTool, takesNothing, toolDeclarations, toolTypes } from '../catalogs/describe.ts'
import { quote } from '../ids/quote.ts'
import { follow } from '../resilience/abort.ts'
import { didYouMean } from '../search/near.ts'
import type { CompilerSlot, Diagnostic } from './compiler.ts'
import { codeFrame } from './failure.ts'
import { workflowDeclarations } from './workflow/functions.ts'

/** Modules are not resolved; the runtime refuses a module with a top-level return. */
const ignored: ReadonlySet<number> = new Set([1108, 2307])
const head = '(async()=>{'
/** An import or export at the start of a line. Only blanks of the same line may precede it, which keeps the search linear. */
const moduleStart = /^[^\S\n\r\u2028\u2029]*(?:import|export)\b(?!\s*\()/m
const mostIssues = 20
/** How many characters on each side of an error are searched for names of tools. */
const nearby = 1_000
const longestMessage = 600

interface CheckOptions extends CompilerSlot {
  readonly identity: Identity
  /** The timeout of the whole program, which includes the check. */
  readonly wallMs: number
}

/**
 * Checks a program against the declarations of the tools that it names, before it runs.
 * - Cancellation: by `signal`.
 * - Errors: TIMEOUT after `wallMs`; LIMIT_EXCEEDED after the time limit of checks; CODE_INVALID with the position, a frame
 *   and the tool's signature; INPUT_INVALID for an unsupported language; RUNTIME_UNAVAILABLE without a compiler.
 */
export async function checkProgram(
  code: string,
  language: ProgramLanguage,
  inner: Pick<InnerCalls, 'named'>,
  { identity, signal: call, slots, wallMs }: CheckOptions,
): Promise<void> {
  if (language === 'python') throw unchecked(language)
  const { signal, end } = checkTime(call, wallMs)
  try {
    await check(code, language, inner, { identity, signal, slots })
  } finally {
    end()
  }
}

async function check(
  code: string,
  language: Exclude<ProgramLanguage, 'python'>,
  inner: Pick<InnerCalls, 'named'>,
  { identity, signal, slots }: Omit<CheckOptions, 'wallMs'>,
): Promise<void> {
  const { text, placed } = language === 'workflow' ? await asScript(code) : wrapped(code)
  const { namespaces, ids, words } = mentionsOf(code)
  const named = await inner.named({ namespaces, ids }, { identity, signal })
  const found = named.map(({ id, tool }) => addressed(id, tool))
  const idSet = new Set(ids)
  const tools = found.filter(({ namespace, name }) => words.has(name) || idSet.has(`${namespace}:${name}`))
  const { compile } = await import('./compiler.ts')
  const name = language === 'javascript' ? 'main.js' : 'main.ts'
  const spaces = [...new Set(found.map(({ namespace }) => namespace))]
  const declared = checkedDeclarations(tools, spaces)
  const said = await compile({ name, text }, declared, { slots, signal, tenant: identity.tenant })
  const counted = said.filter(({ number }) => !ignored.has(number)).slice(0, mostIssues)
  const lines = linesOf(code)
  const wrong = counted.map((each) => clearer(placed(each), lines, found))
  const [first] = wrong
  if (first !== undefined) throw invalid(code, lines, first, wrong, tools)
}

/** A tool by the name that the program uses: an alias, or a name with a version. */
function addressed(id: string, tool: Tool): DeclaredTool {
  const colon = id.indexOf(':')
  return { ...tool, namespace: id.slice(0, colon), name: id.slice(colon + 1) }
}

interface Wrapped {
  readonly text: string
  /** The diagnostics of the compiler, with positions in the author's source. */
  readonly placed: (said: Diagnostic) => Diagnostic
}

async function asScript(code: string): Promise<Wrapped> {
  const { checkedWorkflow } = await import('./workflow/translate.ts')
  const { text, source } = checkedWorkflow(code)
  const { placed } = wrapped(text)
  return {
    text: wrapped(text).text,
    placed(said) {
      const at = placed(said)
      return { ...at, ...(source(at) ?? { line: 1, column: 1 }) }
    },
  }
}

/** Wraps a program that is not a module in a function, because the compiler does not check a top-level return. */
function wrapped(code: string): Wrapped {
  if (moduleStart.test(code)) return { text: code, placed: (said) => said }
  const lines = linesOf(code)
  const last = { line: lines.length, column: (lines.at(-1) ?? '').length + 1 }
  return {
    text: `${head}${code}\n})()`,
    placed(said) {
      if (said.line > lines.length) return { ...said, ...last }
      return said.line === 1 ? { ...said, column: Math.max(1, said.column - head.length) } : said
    },
  }
}

/** Adds the nearest tool name to the diagnostic of an unknown tool. */
function clearer(said: Diagnostic, lines: readonly string[], found: readonly DeclaredTool[]): Diagnostic {
  const [, member] = /^Property '([^']{1,200})' does not exist on type/.exec(said.message) ?? []
  if (member !== undefined) {
    const names = found.flatMap(({ namespace, name }) => [namespace, name])
    return { ...said, message: `${said.message}${didYouMean(member, new Set(names))}` }
  }
  if (!said.message.includes('ThereIsNoSuchTool')) return said
  const near = lines[said.line - 1]?.slice(said.column - 1, said.column + nearby) ?? ''
  const [, , id = ''] = /^(['"`])([^'"`]{1,200})\1/.exec(near) ?? []
  const meant = didYouMean(id, new Set(found.map(({ namespace, name }) => `${namespace}:${name}`)))
  return { ...said, message: `There is no tool ${quote(id)}${meant}.` }
}

function invalid(
  code: string,
  lines: readonly string[],
  first: Diagnostic,
  all: readonly Diagnostic[],
  tools: readonly DeclaredTool[],
): ToolError {
  const { line, column } = first
  const text = lines[line - 1]?.slice(Math.max(0, column - nearby), column + nearby) ?? ''
  const meant = tools.filter(({ name }) => text.includes(name))
  const frame = codeFrame(code, line, column)
  const issues = all.map((each) => ({
    path: '/code',
    message: `line ${each.line}, column ${each.column}: ${clip(each.message)} (TS${each.number})`,
  }))
  return new ToolError(
    'CODE_INVALID',
    `The check found an error at line ${line}, column ${column}: ${clip(first.message)}`,
    {
      effect: 'none',
      details: {
        line,
        column,
        ...(frame === undefined ? {} : { frame }),
        ...(meant.length === 0 ? {} : { signature: toolDeclarations(meant.slice(0, 5)) }),
        issues,
      },
    },
  )
}

function linesOf(code: string): readonly string[] {
  return code.split(/\r\n|[\n\r\u2028\u2029]/)
}

function clip(text: string): string {
  return text.length <= longestMessage ? text : `${text.slice(0, longestMessage).toWellFormed()}…`
}

function unchecked(language: ProgramLanguage): ToolError {
  const message = `A program in ${language} cannot be checked; leave check out, or write it in another language.`
  return new ToolError('INPUT_INVALID', message, {
    effect: 'none',
    details: {
      issues: [{ path: '/check', message: `is for typescript, javascript and workflow, not for ${language}` }],
    },
  })
}

/** The time limit of a check, whatever the timeout of its program. */
const longestMs = 30_000

/** The deadline of a check, until `end` is called. */
interface CheckTime {
  /** Aborts with the call, and at the deadline. */
  readonly signal: AbortSignal
  end(): void
}

/** The deadline of a check is at most that of its program. */
function checkTime(call: AbortSignal, wallMs: number): CheckTime {
  const late = new AbortController()
  const timer = setTimeout(() => late.abort(tooLong(wallMs)), Math.min(wallMs, longestMs))
  const { signal, leave } = follow(call, late.signal)
  return {
    signal,
    end() {
      clearTimeout(timer)
      leave()
    },
  }
}

function tooLong(wallMs: number): ToolError {
  const [code, limit, time] =
    wallMs <= longestMs
      ? (['TIMEOUT', 'wallMs', 'limits.wallMs'] as const)
      : (['LIMIT_EXCEEDED', 'checkMs', `${longestMs} ms`] as const)
  const message = `The check of the program did not end within ${time}; make it simpler, or leave check out.`
  return new ToolError(code, message, { effect: 'none', details: { limit } })
}

/** The API of every program over tools, declared for the compiler that checks it. */
const api = `
type GantryArguments<Id extends keyof GantryTools> =
  GantryTools[Id]['optional'] extends true ? [args?: GantryTools[Id]['args']] : [args: GantryTools[Id]['args']]
interface ThereIsNoSuchTool { readonly ThereIsNoSuchTool: unique symbol }
declare function run<Id extends string>(
  id: string extends Id ? string : Id extends keyof GantryTools ? Id : ThereIsNoSuchTool,
  ...args: Id extends keyof GantryTools ? GantryArguments<Id> : [args?: object]
): Promise<Id extends keyof GantryTools ? GantryTools[Id]['output'] : any>
declare function chain(steps: readonly object[], options?: { input?: unknown }): Promise<any>
declare function search(words: string, options?: { limit?: number }): Promise<any[]>
declare function describe(id: string, options?: { level?: 'summary' | 'types' | 'schema' | 'full' }): Promise<any>
declare function examples(id: string): Promise<any[]>
declare function print(...values: unknown[]): void
declare function sleep(ms: number): Promise<void>
declare const artifacts: {
  put(name: string, content: unknown, options?: { mimeType?: string }): Promise<any>
  get(id: string): Promise<any>
}
declare class ToolError extends Error { code: string; retryable: boolean; details?: any }
declare const console: { [name in 'log' | 'info' | 'warn' | 'error' | 'debug' | 'trace' | 'dir' | 'table']: (...values: unknown[]) => void }
declare const process: any
declare const crypto: any
declare const require: any
declare const stdin: string
declare const TextEncoder: any
declare const TextDecoder: any
declare function structuredClone<T>(value: T): T
declare function setTimeout(work: (...values: any[]) => void, ms?: number, ...values: unknown[]): number
declare function setInterval(work: (...values: any[]) => void, ms?: number, ...values: unknown[]): number
declare function setImmediate(work: (...values: any[]) => void, ...values: unknown[]): number
declare function clearTimeout(id?: number): void
declare function clearInterval(id?: number): void
declare function clearImmediate(id?: number): void
declare function queueMicrotask(work: () => void): void
`

/** The declarations of a program that names these tools. */
export function checkedDeclarations(tools: readonly DeclaredTool[], namespaces: readonly string[]): string {
  const rows = tools.map((tool) => {
    const { args, output } = toolTypes(tool, '  ')
    const key = JSON.stringify(`${tool.namespace}:${tool.name}`)
    return `  ${key}: { optional: ${takesNothing(tool)}; args: ${args}; output: ${output} }\n`
  })
  return `interface GantryTools {\n${rows.join('')}}\n${toolDeclarations(tools, namespaces)}${api}${workflowDeclarations}`
}

/** The tools that the text of a program may name. */
interface Mentions {
  readonly namespaces: readonly string[]
  readonly ids: readonly string[]
  /** Every word and short text of the program: a tool is declared only when its name is one of them. */
  readonly words: ReadonlySet<string>
}

const mostMentions = 200
const name = '[A-Za-z0-9_.$-]{1,128}'
const identifier = /[A-Za-z_$][\w$]{0,127}/y
const quoted = /(['"`])([^'"`\n]{1,128})\1/y
const blank = /\s*/y
const taken = /\{([^{}]{0,2000})\}\s*=\s*tools\b/g
const id = new RegExp(`(['"\`])(${name}:${name}(?::[^'"\`\\n]{1,64})?)\\1`, 'g')
const versioned = new RegExp(`^${name}:[0-9^~<>=*x][^:]{0,64}$`)
const text = /(['"`])([^'"`\n]{1,128})\1/g

/**
 * Finds the names in a program: `tools.x`, `tools["x"]`, `{ x, y: z } = tools` and texts that may be ids or have a
 * version. A false match costs one declaration; a missed name is an unknown tool in the check. Linear in the text, because
 * it runs on the event loop.
 */
export function mentionsOf(source: string): Mentions {
  const namespaces = new Set<string>()
  membersIn(source, namespaces)
  for (const [, inner = ''] of source.matchAll(taken)) {
    for (const part of inner.split(',')) keep(namespaces, (part.split(':')[0] ?? '').trim().replace(/^['"]|['"]$/g, ''))
  }
  const ids = new Set<string>()
  for (const [, , inner = ''] of source.matchAll(id)) keep(ids, inner)
  const words = new Set(source.match(/[\w$]+/g) ?? [])
  const versions = new Set<string>()
  for (const [, , inner = ''] of source.matchAll(text)) {
    words.add(inner)
    if (versioned.test(inner)) keep(versions, inner)
  }
  for (const each of versions) for (const namespace of namespaces) keep(ids, `${namespace}:${each}`)
  for (const each of ids) keep(namespaces, each.slice(0, each.indexOf(':')))
  return { namespaces: [...namespaces], ids: [...ids], words }
}

/** Limits the number of texts, which the author of the program controls. */
function keep(kept: Set<string>, each: string): void {
  if (each !== '' && kept.size < mostMentions) kept.add(each)
}

/** Reads after each `tools`. Scans a run of blanks once, which a regular expression with two runs in a row does not. */
function membersIn(source: string, namespaces: Set<string>): void {
  const match = (pattern: RegExp, at: number): RegExpExecArray | null => {
    pattern.lastIndex = at
    return pattern.exec(source)
  }
  const pass = (at: number, sign = ''): number => {
    const from = source.startsWith(sign, at) ? at + sign.length : at
    return from + (match(blank, from)?.[0].length ?? 0)
  }
  for (const { index } of source.matchAll(/\btools(?![\w$])/g)) {
    const at = pass(pass(pass(index + 'tools'.length), '?'), '.')
    if (source[at] === '[') keep(namespaces, match(quoted, pass(at, '['))?.[2] ?? '')
    else keep(namespaces, match(identifier, at)?.[0] ?? '')
  }
}
