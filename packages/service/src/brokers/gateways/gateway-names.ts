import { setImmediate } from 'node:timers/promises'
import { openaiChat } from '@gantry/adapters'
import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry, Executor } from '@gantry/core'
import { nearest } from '@gantry/core/internal/search/near'

/** Resolves the tool names of gateways, as of one state of the catalog. */
export interface GatewayNames {
  /**
   * The tool of a name: its name in tool formats (`ns__name`), or the plain `name` when exactly one tool has it;
   * returns `namespace:name`. An id, with or without a version, is returned unchanged and looked up by the executor.
   * Throws TOOL_NOT_FOUND with the tools that share a plain name, or with similar names. Tools that are hidden from the
   * caller count as if they had no name.
   */
  find(name: string, isThere?: (key: string) => boolean): string
  /** The catalog name of a tool, by its `namespace:name`: the shortest name that means only this tool. */
  nameFor(key: string): string
}

export type Listing = Pick<Executor, 'tools' | 'catalog' | 'ready' | 'find'>

/** The tools that gateways see, and their names, for each executor; built when first used. */
export interface GatewayView {
  /** Entries in pages, by id; it yields to the event loop between two pages. */
  pages(executor: Listing, signal: AbortSignal): AsyncGenerator<readonly CatalogEntry[], void>
  /** Names as of the last change of the executor's catalog. */
  names(executor: Listing): Promise<GatewayNames>
  /**
   * The tool that a name means to a sender; before a name is refused, backends that were not discovered yet are. A tool
   * that is hidden from the sender is refused with the same error as an unknown name.
   */
  find(executor: Listing, name: string, signal: AbortSignal, sender?: Identity): Promise<string>
}

const pageSize = 50
/** Names that models accept. */
const showable = /^[A-Za-z0-9_-]{1,64}$/
/** The search for similar names takes time for each name, and a sender can send many wrong ones. */
const mostCompared = 20_000
const mostListed = 5
const never = new AbortController().signal

/** `identity` is that of the gateways' own view: a tool hidden from it has no name. */
export function createGatewayView(identity: Identity): GatewayView {
  const kept = new WeakMap<Listing, { names: Promise<GatewayNames> | undefined }>()

  async function* pages(executor: Listing, signal: AbortSignal): AsyncGenerator<readonly CatalogEntry[], void> {
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const page = executor.tools({ identity, limit: pageSize, cursor })
      yield page.items
      cursor = page.cursor
      await setImmediate()
      signal.throwIfAborted()
    }
  }
  const build = async (executor: Listing): Promise<GatewayNames> => {
    const table = createTable()
    for await (const entries of pages(executor, never)) table.add(entries)
    return table.names
  }
  const names = (executor: Listing): Promise<GatewayNames> => {
    const before = kept.get(executor)
    const held = before ?? { names: undefined }
    if (before === undefined) {
      kept.set(executor, held)
      executor.catalog.subscribe(() => {
        held.names = undefined
      })
    }
    held.names ??= build(executor).catch((error: unknown) => {
      held.names = undefined
      throw error
    })
    return held.names
  }
  return {
    pages,
    names,
    async find(executor, name, signal, sender = identity) {
      if (name.includes(':')) return name
      const isThere = (key: string): boolean => isThereFor(executor, key, sender)
      try {
        return (await names(executor)).find(name, isThere)
      } catch {
        await executor.ready({ signal })
        return (await names(executor)).find(name, isThere)
      }
    },
  }
}

function isThereFor(executor: Listing, key: string, sender: Identity): boolean {
  try {
    return executor.find(key, { identity: sender }).key === key
  } catch {
    return false
  }
}

/** The names of these tools; of several versions of a tool, the first must be the newest. */
export function gatewayNames(entries: Iterable<CatalogEntry>): GatewayNames {
  const table = createTable()
  table.add([...entries])
  return table.names
}

/**
 * A plain name never shadows a name of the tool formats: a tool named `github__create_issue` does not receive the calls
 * for `github:create_issue`. When two tools have the same name in the tool formats, neither gets it.
 */
function createTable(): { add(entries: readonly CatalogEntry[]): void; readonly names: GatewayNames } {
  const formatOf = new Map<string, string>()
  /** An empty key: several tools have the name. */
  const byFormat = new Map<string, string>()
  const byPlain = new Map<string, string[]>()

  const add = (entries: readonly CatalogEntry[]): void => {
    const { names } = adapter.tools(entries.map(withoutText))
    for (const { id, key, tool } of entries) {
      if (formatOf.has(key)) continue
      const format = names.nameOf(id) ?? key
      formatOf.set(key, format)
      byFormat.set(format, byFormat.has(format) ? '' : key)
      const sharing = byPlain.get(tool.name)
      if (sharing === undefined) byPlain.set(tool.name, [key])
      else sharing.push(key)
    }
  }
  const nameFor = (key: string): string => {
    const plain = key.slice(key.indexOf(':') + 1)
    const alone = byPlain.get(plain)?.length === 1 && !byFormat.has(plain)
    if (alone && formatOf.has(key) && showable.test(plain)) return plain
    const format = formatOf.get(key) ?? ''
    return byFormat.get(format) === key ? format : key
  }
  const find = (name: string, isThere: (key: string) => boolean = () => true): string => {
    if (name.includes(':')) return name
    const named = byFormat.get(name)
    const key = named === undefined || named === '' || isThere(named) ? named : undefined
    if (key !== undefined && key !== '') return key
    const sharing = key === undefined ? (byPlain.get(name) ?? []).filter(isThere) : []
    const [only, ...others] = sharing
    if (only !== undefined && others.length === 0) return only
    if (sharing.length > 1) throw ambiguous(name, sharing)
    throw unknown(name, formatOf.size > mostCompared ? [] : nearest(name, published(isThere)))
  }
  function* published(isThere: (key: string) => boolean): Generator<string> {
    for (const key of formatOf.keys()) if (isThere(key)) yield nameFor(key)
  }
  return { add, names: { find, nameFor } }
}

const adapter = openaiChat()

/** Only the name is needed from the adapter, so it gets no schema to write. */
function withoutText(entry: CatalogEntry): CatalogEntry {
  const { namespace, name, version, effect } = entry.tool
  const tool = { namespace, name, version, effect, description: '', inputSchema: {}, backends: [] }
  return { id: entry.id, key: entry.key, source: entry.source, digest: '', callDigest: '', tool }
}

function ambiguous(name: string, sharing: readonly string[]): ToolError {
  const listed = sharing.slice(0, mostListed)
  const more = sharing.length > listed.length ? ` and ${sharing.length - listed.length} more` : ''
  const message = `${sharing.length} tools are called ${shown(name)}; use one of the ids ${listed.join(', ')}${more}.`
  return new ToolError('TOOL_NOT_FOUND', message, { details: { nearest: listed } })
}

function unknown(name: string, near: readonly string[]): ToolError {
  const hint = near.length === 0 ? 'read the catalog again' : `did you mean ${near.join(', ')}?`
  return new ToolError('TOOL_NOT_FOUND', `There is no tool ${shown(name)}; ${hint}`, { details: { nearest: near } })
}

/** Text from outside, made safe for a message. */
function shown(name: string): string {
  return `"${name.slice(0, 80).replace(/[^\x20-\x7e]|["\\]/g, '?')}"`
}
