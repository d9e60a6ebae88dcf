import { resolve } from 'node:path'
import { type Issue, ToolError } from '@gantry/contract'
import { parseToolId } from '@gantry/core/internal/ids/tool-id'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'
import { trustFolder } from './folder/entry.ts'
import { digestOf, type Found, type LoadedFile, type ReadOptions, readFiles } from './folder/files.ts'

export interface ToolsFolderOptions extends FolderRules, ReadOptions {
  /** The tools of earlier loads: a file that is broken now keeps its last tools. Pass the same memory to each load. */
  readonly memory?: ToolsFolderMemory
}

/** By file; owned by the loader, one load at a time. */
export type ToolsFolderMemory = Map<string, LoadedFile>

/** The tools of a folder, and the files that were refused. */
export interface ToolsFolder {
  readonly path: string
  /** Tells one state of the loaded files from another. */
  readonly digest: string
  readonly tools: readonly DefinedTool[]
  readonly loaded: readonly { readonly file: string; readonly tools: readonly string[] }[]
  readonly refused: readonly RefusedTool[]
}

/** A file or tool that was not loaded, with the reason. */
export interface RefusedTool {
  readonly file: string
  /** The tool, where others of its file may be there. */
  readonly tool?: string
  readonly reason: string
  /** The tools of its last valid version are kept. */
  readonly kept?: boolean
}

/**
 * Loads the tools of a folder: exports of its modules, which run in this process, and programs with a manifest, which run
 * in a sandbox. Only files directly in the folder are read, so their dependencies belong in subfolders.
 * - Errors: CONFIG_INVALID for a folder that is not there or that others may write to, and for wrong rules. A file or a
 *   tool that is wrong is in the report, and takes no other with it.
 */
export async function loadToolsFolder(path: string, options: ToolsFolderOptions = {}): Promise<ToolsFolder> {
  const vet = createVet(options)
  const folder = await trustFolder(resolve(path))
  const memory: ToolsFolderMemory = options.memory ?? new Map()
  const files = await readFiles(folder, options, memory)
  const refused = files.flatMap((file) => refusalOf(file, memory))
  remember(files, memory)
  const accepted = [...memory].sort(byOrderOf(files)).map(([file, { tools, digest }]) => {
    const fitting = tools.filter((defined) => {
      const reason = vet(defined, file)
      if (reason !== undefined) refused.push({ file, tool: idOf(defined), reason })
      return reason === undefined
    })
    return { file, digest, tools: fitting }
  })
  const loaded = accepted.filter(({ tools }) => tools.length > 0)
  return {
    path: folder.path,
    digest: digestOf(loaded.map(({ file, digest }) => `${file} ${digest}`)),
    tools: loaded.flatMap(({ tools }) => tools),
    loaded: loaded.map(({ file, tools }) => ({ file, tools: tools.map(idOf) })),
    refused,
  }
}

function refusalOf(found: Found, memory: ToolsFolderMemory): RefusedTool[] {
  if (found.state === 'read') return []
  const kept = found.state === 'broken' && memory.has(found.file) ? { kept: true } : {}
  return [{ file: found.file, reason: found.reason, ...kept }]
}

/** A broken file keeps its last tools; a refused or removed file loses them. */
function remember(files: readonly Found[], memory: ToolsFolderMemory): void {
  for (const found of files) {
    if (found.state === 'read') memory.set(found.file, found)
    else if (found.state === 'refused') memory.delete(found.file)
  }
  const there = new Set(files.map(({ file }) => file))
  for (const file of memory.keys()) if (!there.has(file)) memory.delete(file)
}

/** The first of two files that define the same tool must be the same one each time. */
function byOrderOf(
  files: readonly Found[],
): (one: readonly [string, unknown], other: readonly [string, unknown]) => number {
  const order = new Map(files.map(({ file }, index) => [file, index]))
  return ([one], [other]) => (order.get(one) ?? 0) - (order.get(other) ?? 0)
}

function idOf({ tool }: DefinedTool): string {
  return `${tool.namespace}:${tool.name}:${tool.version}`
}

/** Which tools of a folder are accepted. */
interface FolderRules {
  /** Patterns such as `mine:*`; any, when absent. */
  readonly allow?: readonly string[]
  /** Goes before `allow`. */
  readonly deny?: readonly string[]
  /** Namespaces that others have: backends bring tools in that of their name. */
  readonly reserved?: readonly string[]
  /** Tools that there are already, as `namespace:name`. */
  readonly taken?: readonly string[]
}

/** Namespaces of the tools that ship with Gantry; whether or not they are served, their names mean those tools. */
const shipped = ['artifacts', 'code', 'files', 'gantry', 'http', 'kb', 'shell']

/** Says why a tool of a file is refused, in words that follow its id; accepted ones are remembered. */
type Vet = (defined: DefinedTool, file: string) => string | undefined

/** Throws CONFIG_INVALID for patterns that are none. */
function createVet({ allow, deny, reserved = [], taken = [] }: FolderRules): Vet {
  const issues: Issue[] = []
  const allowed = allow === undefined ? () => true : toolMatcher(allow, '/toolsFolder/allow', issues)
  const denied = deny === undefined ? () => false : toolMatcher(deny, '/toolsFolder/deny', issues)
  if (issues.length > 0) {
    const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
    throw new ToolError('CONFIG_INVALID', `The rules of the folder of tools are wrong: ${text}.`, {
      details: { issues },
    })
  }
  const spaces = new Set([...shipped, ...reserved].map((name) => name.toLowerCase()))
  const others = new Set(taken.map((id) => id.toLowerCase()))
  const makers = new Map<string, string>()
  return ({ tool }, file) => {
    const { namespace, name, version, aliases = [] } = tool
    if (spaces.has(namespace.toLowerCase()))
      return `is in the namespace ${namespace}, which is not the folder's to fill`
    const alias = aliases.find((id) => spaces.has(parseToolId(id).namespace.toLowerCase()))
    if (alias !== undefined) return `has the alias ${alias}, in a namespace which is not the folder's to fill`
    if (denied(tool)) return 'is not wanted: it fits toolsFolder.deny'
    if (!allowed(tool)) return 'is not allowed: it fits nothing in toolsFolder.allow'
    const id = `${namespace}:${name}`.toLowerCase()
    const owned = [id, ...aliases.map((other) => other.toLowerCase())].find((other) => others.has(other))
    if (owned !== undefined) return `collides with ${owned}, which the configuration has already`
    const key = `${id}:${version}`
    const before = makers.get(key)
    if (before !== undefined) return `is defined by ${before} already`
    makers.set(key, file)
    return undefined
  }
}
