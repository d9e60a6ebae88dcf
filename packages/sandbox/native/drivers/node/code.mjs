/** From a program's text to something that can run. */
import { createRequire, Module, registerHooks, SourceMap, stripTypeScriptTypes } from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { constants, Script } from 'node:vm'
import { looseImports } from './imports.mjs'

const typescript = process.argv[2] === 'typescript'

/** The language's ending for names of files. */
export const extension = typescript ? 'ts' : 'js'

/** Lets code import as if it stood in the working folder. */
export const importModuleDynamically = constants.USE_MAIN_CONTEXT_DEFAULT_LOADER

/** Where text made from TypeScript comes from, by the name of its file. */
export const maps = new Map()

const moduleSyntax = new Set([
  'Cannot use import statement outside a module',
  "Cannot use 'import.meta' outside a module",
  "Unexpected token 'export'",
  "'import', and 'export' cannot be used outside of module code",
])
const returnSyntax = new Set(['Illegal return statement', 'Return statement is not allowed here'])
const parameters = 'require, module, exports, __filename, __dirname'

// The parser takes long to start, and each kind of syntax is slow once, so it starts before there is a job.
const usual = `(async function (${parameters}) {
interface A { b: string }
class C<T> { #d?: T; e(f: T): void {} }
const g: number = await h<A>(i as string, { j: [1, 'k'] })
for (const l of m) if (l) return console.log(g)
})`
if (typescript) stripTypeScriptTypes(usual)

/** A program that has not run yet; throws SyntaxError. */
export function load(code, name) {
  const text = code.startsWith('#!') ? `//${code}` : code
  try {
    return asFunction(text, name)
  } catch (error) {
    if (!moduleSyntax.has(error.message)) throw error
  }
  return () => asModule(text, name)
}

/** The code as an async function with what CommonJS has. */
export function asFunction(code, name) {
  const text = plain(`(async function (${parameters}) {\n${code}\n})`, name, true)
  const made = new Script(text, { filename: name, lineOffset: -1, importModuleDynamically }).runInThisContext()
  const filename = join(process.cwd(), name)
  const module = Object.assign(new Module(filename), { filename, paths: Module._nodeModulePaths(process.cwd()) })
  const require = Object.assign(createRequire(filename), { main: module })
  return made.bind(module.exports, require, module, module.exports, filename, process.cwd())
}

/** Runs code as a module that stands in the working folder, without a file; its default export is the value. */
async function asModule(code, name) {
  const url = pathToFileURL(join(process.cwd(), name)).href
  const sources = new Map()
  registerHooks({
    resolve: (specifier, context, next) =>
      specifier === url ? { url, format: 'module', shortCircuit: true } : next(specifier, context),
    load(address, context, next) {
      if (address === url) {
        const source = plain(code, name, false)
        sources.set(name, source)
        return { format: 'module', source, shortCircuit: true }
      }
      const loaded = next(address, context)
      if (loaded.format === 'module') sources.set(address, String(loaded.source))
      return loaded
    },
  })
  try {
    return (await import(url)).default
  } catch (error) {
    if (returns(error)) return await asFunction(looseImports(code), name)()
    throw located(error, sources)
  }
}

/** JavaScript from TypeScript: with places kept where types are only left out, with a map of places where not. */
export function plain(code, name, wrapped) {
  if (!typescript) return code
  try {
    return stripTypeScriptTypes(code)
  } catch (error) {
    if (error.code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw showPlace(error, name, wrapped)
  }
  const text = stripTypeScriptTypes(code, { mode: 'transform', sourceMap: true })
  const [made, map] = text.split('//# sourceMappingURL=data:application/json;base64,')
  maps.set(name, { map: new SourceMap(JSON.parse(Buffer.from(map, 'base64').toString())), wrapped })
  return made
}

/** Names the program's file and line in an error of the TypeScript parser, and shows only that line. */
function showPlace(error, name, wrapped) {
  const lines = String(error.stack).split('\n')
  const marks = lines.findIndex((line) => /^\s*\^+\s*$/.test(line))
  const line = Number(/:(\d+)$/.exec(lines[0])?.[1])
  if (marks < 1 || Number.isNaN(line)) return error
  const shown = new SyntaxError(error.message)
  const place = `${name}:${wrapped ? line - 1 : line}\n${lines[marks - 1]}\n${lines[marks]}`
  shown.stack = `${place}\n\nSyntaxError: ${error.message}\n    at parseTypeScript (node:internal/modules/typescript)`
  return shown
}

/** Whether an error says that code, of which nothing has run, returns outside functions. */
export function returns(error) {
  return isUnread(error) && returnSyntax.has(error.message)
}

/** Whether an error comes from reading code and not from running it. */
function isUnread(error) {
  const first = /^\s+at .*$/m.exec(error?.stack)?.[0] ?? ''
  return /^\s+at (?:compileSourceTextModule|parseTypeScript|Session\.post) /.test(first)
}

/** The error with file and line, which modules and cells do not tell: found by reading each source as a function. */
export function located(error, sources) {
  if (!isUnread(error)) return error
  for (const [name, source] of sources) {
    try {
      new Script(`(async function () {\n${looseImports(source)}\n})`, { filename: name, lineOffset: -1 })
    } catch (same) {
      if (same.message === error.message) return same
    }
  }
  return error
}
