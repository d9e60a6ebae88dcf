import { type Identity, type ProgramLanguage, type Tool, ToolError } from '@gantry/contract'
import type { InnerCalls } from '../backends/inner-calls.ts'
import { type DeclaredTool, toolDeclarations } from '../catalogs/describe.ts'
import { quote } from '../ids/quote.ts'
import { follow } from '../resilience/abort.ts'
import { didYouMean } from '../search/near.ts'
import type { CompilerSlot, Diagnostic } from './compiler.ts'
import { checkedDeclarations } from './declarations.ts'
import { codeFrame } from './failure.ts'
import { mentionsOf } from './mentions.ts'

/** Modules are not looked at, and one that returns at its top is for the runtime to refuse. */
const ignored: ReadonlySet<number> = new Set([1108, 2307])
const head = '(async()=>{'
/** An import or export at the start of a line. The blanks before it are those of its line: others would be passed over again for each line. */
const moduleStart = /^[^\S\n\r\u2028\u2029]*(?:import|export)\b(?!\s*\()/m
const mostIssues = 20
/** How much of a line is looked at for names of tools, to each side of the error. */
const nearby = 1_000
const longestMessage = 600

interface CheckOptions extends CompilerSlot {
  readonly identity: Identity
  /** The time of the whole program, of which the check is a part. */
  readonly wallMs: number
}

/**
 * Checks a program against the declarations of the tools that it names, before anything of it runs.
 * - Cancellation: by `signal`.
 * - Errors: TIMEOUT after `wallMs`, LIMIT_EXCEEDED where a check may not even take that long; CODE_INVALID with the place, a frame and the tool's signature; INPUT_INVALID for a language that cannot be
 *   checked; RUNTIME_UNAVAILABLE where there is no compiler.
 */
export async function checkProgram(
  code: string,
  language: ProgramLanguage,
  inner: Pick<InnerCalls, 'named'>,
  { identity, signal: call, turns, wallMs }: CheckOptions,
): Promise<void> {
  if (language === 'python') throw unchecked(language)
  const { signal, end } = checkTime(call, wallMs)
  try {
    await check(code, language, inner, { identity, signal, turns })
  } finally {
    end()
  }
}

async function check(
  code: string,
  language: Exclude<ProgramLanguage, 'python'>,
  inner: Pick<InnerCalls, 'named'>,
  { identity, signal, turns }: Omit<CheckOptions, 'wallMs'>,
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
  const said = await compile({ name, text }, declared, { turns, signal, tenant: identity.tenant })
  const counted = said.filter(({ number }) => !ignored.has(number)).slice(0, mostIssues)
  const lines = linesOf(code)
  const wrong = counted.map((each) => clearer(placed(each), lines, found))
  const [first] = wrong
  if (first !== undefined) throw invalid(code, lines, first, wrong, tools)
}

/** A tool as the program names it: by an alias, or with a version. */
function addressed(id: string, tool: Tool): DeclaredTool {
  const colon = id.indexOf(':')
  return { ...tool, namespace: id.slice(0, colon), name: id.slice(colon + 1) }
}

interface Wrapped {
  readonly text: string
  /** What the compiler says, at its place in what the author wrote. */
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

/** A program as the body of a function, which it is unless it is a module: what is returned outside of one is not checked. */
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

/** Names the tools that there are where the program names one that there is not. */
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

/** The longest that a check takes, whatever time its program has. */
const longestMs = 30_000

/** The time of a check, until `end` is called. */
export interface CheckTime {
  /** Aborts with the call, and when the time is over. */
  readonly signal: AbortSignal
  end(): void
}

/** A check is a part of its program's run, so that it never takes longer than that may. */
export function checkTime(call: AbortSignal, wallMs: number): CheckTime {
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
