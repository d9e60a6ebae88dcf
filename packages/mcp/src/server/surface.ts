import type { Identity, JsonObject, ResultTool } from '@gantry/contract'
import type { CatalogEntry } from '@gantry/core'
import { compactSurface } from './compact-surface.ts'
import type { McpCallInput, McpHost } from './host.ts'
import { createToolNames, createToolWriter, type McpTool, type Revision } from './tool-list.ts'
import type { CalledTool } from './tool-result.ts'

/** What a call of a tool comes down to: a call of the host, or an answer that is known here. */
export type Prepared =
  | { readonly kind: 'run'; readonly input: McpCallInput }
  | { readonly kind: 'answer'; readonly answer: (signal: AbortSignal) => Promise<CalledTool> }

/**
 * Which tools a client sees and what a call of each means. Nothing of it is there for a caller who may not see it.
 * - Errors: `list` rejects with INPUT_INVALID for a cursor that is none, `prepare` throws what a call is refused for.
 */
export interface Surface {
  list(
    cursor: string | undefined,
    identity: Identity,
    revision: Revision,
  ): Promise<{ readonly tools: readonly McpTool[]; readonly nextCursor?: string }>
  prepare(name: string, args: JsonObject, identity: Identity): Prepared
  /** The schema of outputs under which a tool is listed in a revision; undefined when it has none there. */
  outputSchema(tool: ResultTool | undefined, identity: Identity, revision: Revision): JsonObject | undefined
  /** The same as long as the caller would be shown the same tools. */
  hashFor(identity: Identity): string
  /** What is the same, one by one, as long as that cannot have changed for anybody; cheap. */
  state(): readonly unknown[]
}

/** `tools` shows every tool as itself, `compact` seven that find, describe and run all of them. */
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
      return entry === undefined ? undefined : (writer.write(entry, revision).outputSchema as JsonObject | undefined)
    },
    hashFor: (identity) => host.executor.hashFor(identity),
    state: () => [host.executor, host.executor.catalog.hash],
  }
}

/** A tool that was removed since its call was made has no listing that a client could compare with. */
function findQuietly({ executor }: McpHost, id: string, identity: Identity): CatalogEntry | undefined {
  try {
    return executor.find(id, { identity })
  } catch {
    return undefined
  }
}

/** What is called is what was looked up: with the version or range that the name has, and within the one namespace. */
function idOf(name: string, { key }: CatalogEntry, namespace: string | undefined): string {
  if (!name.includes(':')) return key
  return namespace === undefined ? name : `${namespace}:${name}`
}
