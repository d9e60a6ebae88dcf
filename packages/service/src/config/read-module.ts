import { spawnSync } from 'node:child_process'
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import { ToolError } from '@gantry/contract'
import { type ImportedModule, importModule } from './import-module.ts'
import { configError, isToolError } from './problem.ts'

const mostMs = 30_000

/**
 * The default export of a configuration module, or what that function returns. One that was read before is the same
 * module as then, unless it is to be read `fresh`; another address makes it another module.
 */
export async function readModuleConfig(file: string, signal: AbortSignal, fresh: boolean): Promise<unknown> {
  if (!fresh) resolveOurPackages()
  const { href } = pathToFileURL(file)
  const url = fresh ? `${href}?read=${Date.now()}` : href
  try {
    return await soon(file, load(file, url), signal)
  } catch (error) {
    if (isToolError(error)) throw error
    const line = lineOf(error, file, url)
    const where = line === undefined ? '' : ` at line ${line}`
    throw configError(file, `The configuration ${file} could not be loaded: it failed${where}.`, [], error)
  }
}

async function load(file: string, url: string): Promise<unknown> {
  const loaded = await importModule(url)
  if (loaded.default === undefined || saysNothing(loaded)) {
    throw configError(file, `The configuration ${file} has no default export; write: export default { … }`, [])
  }
  return typeof loaded.default === 'function' ? await loaded.default() : loaded.default
}

/** A file without a word, as one is while it is written, counts as CommonJS; what it exports then would lift every rule. */
function saysNothing(loaded: ImportedModule): boolean {
  const exported = loaded['module.exports']
  return typeof exported === 'object' && exported !== null && Reflect.ownKeys(exported).length === 0
}

/** A configuration that never finishes must not hang the command. */
async function soon<T>(file: string, work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stop = Promise.withResolvers<never>()
  const late = () => stop.reject(configError(file, `The configuration ${file} did not finish within ${mostMs} ms.`, []))
  const timer = setTimeout(late, mostMs)
  const cancel = () => stop.reject(new ToolError('CANCELLED', 'Cancelled while the configuration was loading.'))
  signal.addEventListener('abort', cancel, { once: true })
  try {
    return await Promise.race([work, stop.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}

/** Where in the file something failed, if what was thrown tells; it may be anything, even what throws when it is read. */
function lineOf(thrown: unknown, file: string, url: string): string | undefined {
  try {
    if (!(thrown instanceof Error)) return undefined
    const line = lineIn(String(thrown.stack), file, url)
    return line ?? (thrown instanceof SyntaxError ? lineIn(syntaxTrace(file), file, url) : undefined)
  } catch {
    return undefined
  }
}

/** The line of the file that a trace names first. */
function lineIn(trace: string, file: string, url: string): string | undefined {
  const places = [url, file].map((name) => trace.indexOf(`${name}:`)).filter((at) => at !== -1)
  if (places.length === 0) return undefined
  return /:(\d+)/.exec(trace.slice(Math.min(...places) + 'file://'.length))?.[1]
}

/** Node keeps the place of a syntax error to itself until it prints it, so it is made to print it; nothing is run. */
function syntaxTrace(file: string): string {
  return spawnSync(process.execPath, ['--check', file], { encoding: 'utf8', timeout: 10_000 }).stderr
}

const ours = /^(?:gantry|@gantry\/[a-z-]+)(?:\/|$)/

/** Lets a configuration anywhere on disk import this installation's packages when it has none of its own. */
export function resolveOurPackages(): void {
  registerHooks({
    resolve(specifier, context, next) {
      if (!ours.test(specifier)) return next(specifier, context)
      try {
        return next(specifier, context)
      } catch (error) {
        if ((error as { code?: unknown }).code !== 'ERR_MODULE_NOT_FOUND') throw error
        return next(specifier, { ...context, parentURL: import.meta.url })
      }
    },
  })
}
