import { type Issue, ToolError } from '@gantry/contract'
import { parseToolId } from '@gantry/core/internal/ids/tool-id'
import { toolMatcher } from '@gantry/core/internal/ids/tool-pattern'
import type { DefinedTool } from '@gantry/core/internal/tools/tool'

/** Which tools of a folder may be. */
export interface FolderRules {
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

/** Says why a tool of a file may not be, in words that follow its id; the ones that may are remembered. */
export type Vet = (defined: DefinedTool, file: string) => string | undefined

/** Throws CONFIG_INVALID for patterns that are none. */
export function createVet({ allow, deny, reserved = [], taken = [] }: FolderRules): Vet {
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
