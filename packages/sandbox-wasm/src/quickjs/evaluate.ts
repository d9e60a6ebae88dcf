import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import { driversFolder } from '../guest/own-files.ts'
import type { Guest } from './guest.ts'
import type { Run } from './run.ts'
import type { CodeJob } from './scripts.ts'
import { stripTypes, TypeScriptError } from './strip-types.ts'

/** A started program and the promise of its result. */
export interface Started {
  readonly promise: QuickJSHandle
  readonly kind: Form['kind']
}

/** Memory reserve for describing an error when all memory is used. */
const spareBytes = 1_048_576
const fileName = 'main.js'
/** Evaluates global code with `await` to a promise of its last value; the library has no name for this flag. */
const asyncGlobalCode = 1 << 7

/** Starts a program in the first form that compiles; undefined when compiling ended the run. */
export function start(job: CodeJob, guest: Guest, run: Run, loose: LooseImports): Started | undefined {
  const { code, language } = job.program
  const faults = new Map<Form['kind'], string>()
  for (const form of formsOf(code, job.session, loose)) {
    const tried = tryForm(form, language, guest)
    if (typeof tried !== 'string') return tried
    if (run.over) return undefined
    if (!faults.has(form.kind)) faults.set(form.kind, tried)
  }
  const likely = looksLikeModule(code) ? faults.get('module') : undefined
  run.fail(likely ?? [...faults.values()][0] ?? '', guest.engine.refused)
  return undefined
}

/** Starts the program in one form, or returns the compiler's message. */
function tryForm(form: Form, language: string, guest: Guest): Started | string {
  const { context } = guest
  try {
    const { kind, text } = inJavascript(form, language)
    guest.place(kind === 'body' ? bodyHead.length : 0)
    if (kind === 'module') return startModule(text, guest)
    // Async functions and async code do not throw when called, so an error here is the compiler's.
    const result = context.evalCode(text, fileName, kind === 'cell' ? asyncGlobalCode : { type: 'global' })
    return result.error === undefined ? { promise: result.value, kind } : describe(guest, result.error)
  } catch (error) {
    if (error instanceof TypeScriptError) return `SyntaxError: ${error.message}`
    throw error
  }
}

/** A module can also fail while it runs; its error is then a rejected promise. */
function startModule(text: string, guest: Guest): Started | string {
  const { context } = guest
  const compiled = context.evalCode(text, fileName, { type: 'module', compileOnly: true })
  if (compiled.error !== undefined) return describe(guest, compiled.error)
  const { error, value } = context.evalCode(text, fileName, { type: 'module' }) as {
    error?: QuickJSHandle
    value?: QuickJSHandle
  }
  if (value !== undefined) return { promise: value, kind: 'module' }
  const rejected = context.newPromise()
  rejected.reject(error)
  return { promise: rejected.handle, kind: 'module' }
}

/** Describes an error with the guest's own code, and so within its limits. */
function describe({ context, call, allow, engine }: Guest, error: QuickJSHandle): string {
  allow(spareBytes)
  const text = call('describe', error)
  if (text.error === undefined && context.typeof(text.value) === 'string') return context.getString(text.value)
  return engine.refused ? 'InternalError: out of memory' : 'Uncaught: the thrown value cannot be inspected'
}

/** Ends a run with an uncaught error. */
export function failWith(guest: Guest, run: Run, error: QuickJSHandle): void {
  const { refused } = guest.engine
  const text = describe(guest, error)
  // Without memory for an error QuickJS throws null.
  run.fail(refused && text === 'Uncaught null' ? 'InternalError: out of memory' : text, refused)
}

/** The end of a program that was not stopped: its exit code, and its value as JSON text or the reason why there is none. */
interface Finished {
  readonly exitCode: number
  readonly text?: string
  readonly fault?: string
}

export function finish(guest: Guest, { kind }: Started, settled: QuickJSHandle): Finished {
  const { context, call } = guest
  const value = kind === 'body' ? settled : context.getProp(settled, kind === 'module' ? 'default' : 'value')
  const said = call('finish', value)
  if (said.error !== undefined) {
    const code = call('exitCode')
    const exitCode = code.error === undefined ? context.getNumber(code.value) : 0
    return { exitCode, fault: reasonOf(describe(guest, said.error)) }
  }
  const [code = '', text] = splitOnce(context.getString(said.value))
  return { exitCode: Number(code), ...(text === '' ? {} : { text }) }
}

function splitOnce(text: string): readonly [string, string] {
  const at = text.indexOf(' ')
  return [text.slice(0, at), text.slice(at + 1)]
}

function reasonOf(text: string): string {
  return (text.slice(0, 500).split('\n')[0] ?? '').replace(/^TypeError: /, '')
}

/**
 * How a program is parsed. A *body* is that of an async function, with `return` and `await` at the top level; a *module*
 * may import and export; a *cell* of a session keeps its variables, and its last expression is its value.
 */
interface Form {
  readonly kind: 'body' | 'module' | 'cell'
  readonly text: string
}

/** Turns `import` statements into expressions, line by line. */
export type LooseImports = (code: string) => string

/** Prefix of a body, on the same line, so that line numbers are unchanged. */
export const bodyHead = '(async()=>{'

/** The forms of a program, most likely first; the first that compiles is used. */
function formsOf(code: string, session: boolean, loose: LooseImports): Form[] {
  const plain = code.replace(/^\uFEFF/, '').replace(/^#!/, '//')
  const body = (text: string): Form => ({ kind: 'body', text: `${bodyHead}${text}\n})()` })
  if (session) return [{ kind: 'cell', text: loose(plain) }, body(loose(plain))]
  const mixed = looksLikeModule(code) ? [body(loose(plain))] : []
  return [body(plain), { kind: 'module', text: plain }, ...mixed]
}

/** Whether invalid code was probably meant as a module. Matches blanks within one line, so that lines are scanned once. */
export function looksLikeModule(code: string): boolean {
  return /^[^\S\n\r\u2028\u2029]*(?:import|export)\b(?!\s*\()/m.test(code)
}

/** The form as JavaScript. Throws TypeScriptError. */
function inJavascript(form: Form, language: string): Form {
  return language === 'typescript' ? { ...form, text: stripTypes(form.text) } : form
}

export { TypeScriptError }

/** The import conversion that the JavaScript drivers of other runtimes use too. */
export async function loadLooseImports(): Promise<LooseImports> {
  const file = join(driversFolder(), 'node', 'imports.mjs')
  const { looseImports }: { looseImports: LooseImports } = await import(pathToFileURL(file).href)
  return looseImports
}
