import { spawnSync } from 'node:child_process'
import { registerHooks } from 'node:module'
import { pathToFileURL } from 'node:url'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { unlessAborted, within } from '@gantry/core/internal/resilience/abort'
import { type ImportedModule, importModule } from './import-module.ts'
import { configError, isToolError } from './problem.ts'

const mostMs = 30_000

/**
 * The default export of a configuration module, or its return value when it is a function. A module that was loaded
 * before is not evaluated again unless `fresh`, which imports it under another URL.
 */
export async function readModuleConfig(file: string, signal: AbortSignal, fresh: boolean): Promise<unknown> {
  if (!fresh) resolveOurPackages()
  const { href } = pathToFileURL(file)
  const url = fresh ? `${href}?read=${Date.now()}` : href
  try {
    return await inTime(file, load(file, url), signal)
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

/** An empty file, as while it is being written, is CommonJS with an empty export, which would remove every rule. */
function saysNothing(loaded: ImportedModule): boolean {
  const exported = loaded['module.exports']
  return typeof exported === 'object' && exported !== null && Reflect.ownKeys(exported).length === 0
}

/** Bounds the time that a configuration may take to load. */
function inTime<T>(file: string, work: Promise<T>, signal: AbortSignal): Promise<T> {
  const cancelled = () => new ToolError('CANCELLED', 'Cancelled while the configuration was loading.')
  return within(mostMs, unlessAborted(work, signal, cancelled), () => {
    throw configError(file, `The configuration ${file} did not finish within ${mostMs} ms.`, [])
  })
}

/** The line of the file where a thrown value comes from, if it can be found. Its getters may throw. */
function lineOf(thrown: unknown, file: string, url: string): string | undefined {
  try {
    if (!(thrown instanceof Error)) return undefined
    const line = lineIn(String(thrown.stack), file, url)
    return line ?? (thrown instanceof SyntaxError ? lineIn(syntaxTrace(file), file, url) : undefined)
  } catch {
    return undefined
  }
}

/** The first line number of the file in a stack trace. */
function lineIn(trace: string, file: string, url: string): string | undefined {
  const places = [url, file].map((name) => trace.indexOf(`${name}:`)).filter((at) => at !== -1)
  if (places.length === 0) return undefined
  return /:(\d+)/.exec(trace.slice(Math.min(...places) + 'file://'.length))?.[1]
}

/** Node prints the place of a syntax error but does not expose it, so `node --check` is run for its output. */
function syntaxTrace(file: string): string {
  return spawnSync(process.execPath, ['--check', file], { encoding: 'utf8', timeout: 10_000 }).stderr
}

const ours = /^(?:gantry|@gantry\/[a-z-]+)(?:\/|$)/

/** Lets a configuration anywhere on disk import the packages of this installation when it has none of its own. */
export function resolveOurPackages(): void {
  registerHooks({
    resolve(specifier, context, next) {
      if (!ours.test(specifier)) return next(specifier, context)
      try {
        return next(specifier, context)
      } catch (error) {
        if (!isObject(error) || error.code !== 'ERR_MODULE_NOT_FOUND') throw error
        return next(specifier, { ...context, parentURL: import.meta.url })
      }
    },
  })
}
