import type { Identity, JsonObject, ResultTool } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import { compactSurface } from './compact-surface.ts'
import type { McpCallInput, McpHost } from './host.ts'
import { createToolNames, createToolWriter, type McpTool, type Revision } from './tool-list.ts'
import type { CalledTool } from './tool-result.ts'

/** A prepared tool call: a call of the host, or a result that needs no call. */
export type Prepared =
  | { readonly kind: 'run'; readonly input: McpCallInput }
  | { readonly kind: 'answer'; readonly answer: (signal: AbortSignal) => Promise<CalledTool> }

/**
 * The tools that a client sees and what a call of each does. Hidden tools do not exist for the caller.
 * - Errors: `list` rejects with INPUT_INVALID for an invalid cursor, `prepare` throws the refusal of a call.
 */
export interface Surface {
  list(
    cursor: string | undefined,
    identity: Identity,
    revision: Revision,
  ): Promise<{ readonly tools: readonly McpTool[]; readonly nextCursor?: string }>
  prepare(name: string, args: JsonObject, identity: Identity): Prepared
  /** The output schema of a tool as listed in a revision; undefined when it is listed without one. */
  outputSchema(tool: ResultTool | undefined, identity: Identity, revision: Revision): McpTool['outputSchema']
  /** Equal as long as the caller sees the same tools. */
  hashFor(identity: Identity): string
  /** Equal, member by member, as long as nothing has changed for any caller. Cheap. */
  state(): readonly unknown[]
}

/** `tools` lists every tool, `compact` lists seven tools that find, describe and run all of them. */
export type SurfaceName = 'tools' | 'compact'

export interface SurfaceOptions {
  readonly surface?: SurfaceName
  /** Only tools of this namespace, under their bare names; not of a compact surface. */
  readonly namespace?: string
}

export function createSurface(host: McpHost, { surface = 'tools', namespace }: SurfaceOptions): Surface {
  if (surface === 'compact') return compactSurface(host)
  const within = namespace === undefined ? {} : { namespace }
  const writer = createToolWriter({ ...within, tasks: host.durable !== undefined })
  const names = createToolNames(() => host.executor, writer.nameOf, namespace)
  return {
    async list(cursor, identity, revision) {
      const { executor } = host
      await executor.ready()
      const page = executor.tools({ ...within, identity, ...(cursor === undefined ? {} : { cursor }) })
      const tools = page.items.map((entry) => writer.write(entry, revision))
      return page.cursor === undefined ? { tools } : { tools, nextCursor: page.cursor }
    },
    prepare(name, args, identity) {
      const entry = names.find(name, identity)
      return { kind: 'run', input: { kind: 'call', tool: idOf(name, entry, namespace), args } }
    },
    outputSchema(tool, identity, revision) {
      if (tool === undefined) return undefined
      const entry = findQuietly(host, `${tool.id}:${tool.version}`, identity)
      return entry === undefined ? undefined : writer.write(entry, revision).outputSchema
    },
    hashFor: (identity) => host.executor.hashFor(identity),
    state: () => [host.executor, host.executor.catalog.hash],
  }
}

/** A tool that was removed after its call has no listed schema that a client could compare with. */
function findQuietly({ executor }: McpHost, id: string, identity: Identity): CatalogEntry | undefined {
  try {
    return executor.find(id, { identity })
  } catch {
    return undefined
  }
}

/** The id of the call: the looked-up tool with the version or range of the name, within the namespace. */
function idOf(name: string, { key }: CatalogEntry, namespace: string | undefined): string {
  if (!name.includes(':')) return key
  return namespace === undefined ? name : `${namespace}:${name}`
}
