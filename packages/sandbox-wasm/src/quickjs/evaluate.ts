import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import { driversFolder } from '../guest/own-files.ts'
import type { Guest } from './guest.ts'
import type { Run } from './run.ts'
import type { CodeJob } from './scripts.ts'
import { stripTypes, TypeScriptError } from './strip-types.ts'

/** A program that was started: the promise of what it comes to. */
export interface Started {
  readonly promise: QuickJSHandle
  readonly kind: Form['kind']
}

/** Room to say what went wrong when all the memory is used up. */
const spareBytes = 1_048_576
const fileName = 'main.js'
/** Global code with `await`, which gives a promise of its last value; the library has no name for it. */
const asyncGlobalCode = 1 << 7

/** Starts a program in the first form in which it compiles; undefined when that ended it already. */
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

/** The program in this form, started, or what the compiler says. */
function tryForm(form: Form, language: string, guest: Guest): Started | string {
  const { context } = guest
  try {
    const { kind, text } = inJavascript(form, language)
    guest.place(kind === 'body' ? bodyHead.length : 0)
    if (kind === 'module') return startModule(text, guest)
    // Neither an async function nor async code throws when it is called, so an error is the compiler's.
    const result = context.evalCode(text, fileName, kind === 'cell' ? asyncGlobalCode : { type: 'global' })
    return result.error === undefined ? { promise: result.value, kind } : describe(guest, result.error)
  } catch (error) {
    if (error instanceof TypeScriptError) return `SyntaxError: ${error.message}`
    throw error
  }
}

/** A module can also fail while it runs; then its error is that of a promise that was rejected. */
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

/** An error as a program's author knows it, said by the guest's own code and so bounded like everything it does. */
function describe({ context, call, allow, engine }: Guest, error: QuickJSHandle): string {
  allow(spareBytes)
  const text = call('describe', error)
  if (text.error === undefined && context.typeof(text.value) === 'string') return context.getString(text.value)
  return engine.refused ? 'InternalError: out of memory' : 'Uncaught, and what was thrown cannot be read'
}

/** Ends a run with an uncaught error. */
export function failWith(guest: Guest, run: Run, error: QuickJSHandle): void {
  const { refused } = guest.engine
  const text = describe(guest, error)
  // Without memory for an error QuickJS throws nothing at all.
  run.fail(refused && text === 'Uncaught null' ? 'InternalError: out of memory' : text, refused)
}

/** How a program ended that was not stopped: its exit code, and its value as JSON text or what is wrong with it. */
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
 * A way to read a program. A *body* is that of an async function, where `return` and `await` may stand at the top; a
 * *module* may import and export; a *cell* of a session keeps its variables and has the value of its last expression.
 */
interface Form {
  readonly kind: 'body' | 'module' | 'cell'
  readonly text: string
}

/** Makes `import` statements into expressions, line by line. */
export type LooseImports = (code: string) => string

/** What stands before a body, on one line with it, so that its lines keep their numbers. */
export const bodyHead = '(async()=>{'

/** The ways to read a program, the likeliest first; the first that compiles is meant. */
function formsOf(code: string, session: boolean, loose: LooseImports): Form[] {
  const plain = code.replace(/^\uFEFF/, '').replace(/^#!/, '//')
  const body = (text: string): Form => ({ kind: 'body', text: `${bodyHead}${text}\n})()` })
  if (session) return [{ kind: 'cell', text: loose(plain) }, body(loose(plain))]
  const mixed = looksLikeModule(code) ? [body(loose(plain))] : []
  return [body(plain), { kind: 'module', text: plain }, ...mixed]
}

/** Whether code that cannot be read was more likely meant to be a module. Blanks are those of one line, so that a run of lines is read once. */
export function looksLikeModule(code: string): boolean {
  return /^[^\S\n\r\u2028\u2029]*(?:import|export)\b(?!\s*\()/m.test(code)
}

/** The form in JavaScript. Throws TypeScriptError. */
function inJavascript(form: Form, language: string): Form {
  return language === 'typescript' ? { ...form, text: stripTypes(form.text) } : form
}

export { TypeScriptError }

/** The reading of imports that the other runtimes' JavaScript has too. */
export async function loadLooseImports(): Promise<LooseImports> {
  const file = join(driversFolder(), 'node', 'imports.mjs')
  const { looseImports } = (await import(pathToFileURL(file).href)) as { looseImports: LooseImports }
  return looseImports
}
