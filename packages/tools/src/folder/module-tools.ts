import { pathToFileURL } from 'node:url'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'
import type { FolderFile } from './entry.ts'

/** Imports a module by its address. */
export type ImportModule = (url: string) => Promise<object>

/** A module of a folder that is tools. */
export const moduleName = /^(?!.*\.(?:test|d)\.).+\.(?:m?[jt]s)$/

const mostMs = 30_000

/**
 * The tools that a module exports, by whatever names, alone or in lists. What the file says is part of its address, so
 * that a changed file is another module and an unchanged one is not run twice; what it imports stays as it was.
 */
export async function moduleTools(
  { path, digest }: FolderFile,
  load: ImportModule,
  signal: AbortSignal,
): Promise<DefinedTool[]> {
  const url = pathToFileURL(path)
  url.searchParams.set('version', digest.slice(0, 16))
  const exported = Object.values(await soon(load(url.href), signal))
  const tools = [...new Set(exported.flat().filter(isDefinedTool))]
  if (tools.length === 0) throw new Error('exports nothing that defineTool returned')
  return tools
}

function isDefinedTool(value: unknown): value is DefinedTool {
  return typeof value === 'object' && value !== null && 'tool' in value && 'run' in value
}

/** A module that never finishes must not hang the start. */
async function soon<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const stop = Promise.withResolvers<never>()
  const timer = setTimeout(() => stop.reject(new Error(`did not finish within ${mostMs} ms`)), mostMs)
  const cancel = (): void => stop.reject(signal.reason)
  signal.addEventListener('abort', cancel, { once: true })
  try {
    return await Promise.race([work, stop.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}
