import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { driversFolder } from '../guest/own-files.ts'
import { stripTypes, TypeScriptError } from './strip-types.ts'

/**
 * A way to read a program. A *body* is that of an async function, where `return` and `await` may stand at the top; a
 * *module* may import and export; a *cell* of a session keeps its variables and has the value of its last expression.
 */
export interface Form {
  readonly kind: 'body' | 'module' | 'cell'
  readonly text: string
}

/** Makes `import` statements into expressions, line by line. */
export type LooseImports = (code: string) => string

/** What stands before a body, on one line with it, so that its lines keep their numbers. */
export const bodyHead = '(async()=>{'

/** The ways to read a program, the likeliest first; the first that compiles is meant. */
export function formsOf(code: string, session: boolean, loose: LooseImports): Form[] {
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
export function inJavascript(form: Form, language: string): Form {
  return language === 'typescript' ? { ...form, text: stripTypes(form.text) } : form
}

export { TypeScriptError }

/** The reading of imports that the other runtimes' JavaScript has too. */
export async function loadLooseImports(): Promise<LooseImports> {
  const file = join(driversFolder(), 'node', 'imports.mjs')
  const { looseImports } = (await import(pathToFileURL(file).href)) as { looseImports: LooseImports }
  return looseImports
}
