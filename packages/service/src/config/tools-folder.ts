import { resolve } from 'node:path'
import type { Json, JsonObject } from '@gantry/contract'
import type { Backend, DefinedTool } from '@gantry/core'
import { copyJson } from '@gantry/core/internal/json/copy'
import { loadToolsFolder, type RefusedTool, type ToolsFolder, type ToolsFolderMemory } from '@gantry/tools'
import { importModule } from './import-module.ts'
import { resolveOurPackages } from './read-module.ts'

/** What `toolsFolder` may say, once it was checked. */
type Said = string | (JsonObject & { readonly path: string; readonly allow?: string[]; readonly deny?: string[] })

export interface ToolsFolderAround {
  /** That of the configuration. */
  readonly folder: string
  /** What the configuration has besides, which nothing in the folder may stand before. */
  readonly tools: readonly DefinedTool[]
  readonly backends: readonly Backend[]
  /** What earlier loads gave. */
  readonly memory: ToolsFolderMemory | undefined
  readonly fresh: boolean
  readonly signal: AbortSignal
}

/** Loads the folder of tools that a configuration names; undefined when it names none. Throws CONFIG_INVALID. */
export async function openToolsFolder(
  said: Json | undefined,
  { folder, tools, backends, memory, fresh, signal }: ToolsFolderAround,
): Promise<ToolsFolder | undefined> {
  if (said === undefined) return undefined
  const { path, allow, deny } = typeof said === 'string' ? { path: said } : (said as Exclude<Said, string>)
  if (!fresh) resolveOurPackages()
  return loadToolsFolder(resolve(folder, path), {
    ...(allow === undefined ? {} : { allow }),
    ...(deny === undefined ? {} : { deny }),
    ...(memory === undefined ? {} : { memory }),
    reserved: ['demo', ...backends.map(({ name }) => name)],
    taken: tools.map(({ tool }) => `${tool.namespace}:${tool.name}`),
    load: importModule,
    parse: async (file, text) => copyJson((await import('./read-data.ts')).parseYaml(file, text)),
    signal,
  })
}

/** What somebody who starts Gantry should know of it, a line each. */
export function folderWarnings(folder: ToolsFolder | undefined): string[] {
  return (folder?.refused ?? []).map(refusalText)
}

/** Why something of the folder is not there, as a sentence. */
export function refusalText({ file, tool, reason, kept }: RefusedTool): string {
  const what = tool === undefined ? `${file} in the folder of tools` : `${tool} of ${file}`
  const before = kept === true ? '; what it was before stays in use' : ''
  return `${what} was not loaded: ${reason}${before}`
}
