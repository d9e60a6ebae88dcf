import { setImmediate } from 'node:timers/promises'
import { openaiChat } from '@gantry/adapters'
import { type Identity, ToolError } from '@gantry/contract'
import type { CatalogEntry, Executor } from '@gantry/core'
import { nearest } from '@gantry/core/internal/search/near'

/** Which tools a gateway can mean by a name, as of one state of the catalog. */
export interface GatewayNames {
  /**
   * The tool that a name means: the name of the formats (`ns__name`), or the plain `name` when exactly one tool has it;
   * gives `namespace:name`. An id, with a version or without, is given back as it is and looked up by the executor.
   * Throws TOOL_NOT_FOUND, which lists the tools that share a plain name, or names that are spelled nearly so. Tools that
   * are not there for whoever asks count as if they had no name.
   */
  find(name: string, isThere?: (key: string) => boolean): string
  /** What the catalog calls a tool, by its `namespace:name`: as short as it can be and still mean one tool. */
  nameFor(key: string): string
}

/** What is asked of an executor here. */
export type Listing = Pick<Executor, 'tools' | 'catalog' | 'ready' | 'find'>

/** The tools that gateways see, and their names, for each executor; made when first asked for. */
export interface GatewayView {
  /** Entries in pieces, by id; between two pieces others get their turn. */
  pages(executor: Listing, signal: AbortSignal): AsyncGenerator<readonly CatalogEntry[], void>
  /** Names as of the last change of the executor's catalog. */
  names(executor: Listing): Promise<GatewayNames>
  /**
   * The tool that a name means to a sender; before it is refused, the backends that were not asked yet are asked for their
   * tools. What is not there for him is refused in the same words as what nobody has.
   */
  find(executor: Listing, name: string, signal: AbortSignal, sender?: Identity): Promise<string>
}

const pageSize = 50
/** Names that a model can be shown. */
const showable = /^[A-Za-z0-9_-]{1,64}$/
/** Looking for near names takes time for each name, and whoever sends wrong ones can send many. */
const mostCompared = 20_000
const mostListed = 5
const never = new AbortController().signal

/** `identity` is that of the gateways' own view: what it may not see has no name. */
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

/** The names of these tools; of several versions of one, the first must be the newest. */
export function gatewayNames(entries: Iterable<CatalogEntry>): GatewayNames {
  const table = createTable()
  table.add([...entries])
  return table.names
}

/**
 * A plain name never stands in for a name of the formats: whoever brings a tool called `github__create_issue` does not
 * get the calls that are meant for `github:create_issue`. Where two tools come out with the same name of the formats,
 * neither has it.
 */
function createTable(): { add(entries: readonly CatalogEntry[]): void; readonly names: GatewayNames } {
  const formatOf = new Map<string, string>()
  /** An empty key: several tools have it. */
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

/** The adapter is asked for a name only, so it is not given a schema to write. */
function withoutText(entry: CatalogEntry): CatalogEntry {
  const { namespace, name, version, effect } = entry.tool
  const tool = { namespace, name, version, effect, description: '', inputSchema: {}, backends: [] }
  return { id: entry.id, key: entry.key, source: entry.source, digest: '', callDigest: '', tool }
}

function ambiguous(name: string, sharing: readonly string[]): ToolError {
  const listed = sharing.slice(0, mostListed)
  const more = sharing.length > listed.length ? ` and ${sharing.length - listed.length} more` : ''
  const message = `${sharing.length} tools are called ${shown(name)}; say which: ${listed.join(', ')}${more}.`
  return new ToolError('TOOL_NOT_FOUND', message, { details: { nearest: listed } })
}

function unknown(name: string, near: readonly string[]): ToolError {
  const hint = near.length === 0 ? 'read the catalog again' : `did you mean ${near.join(', ')}?`
  return new ToolError('TOOL_NOT_FOUND', `There is no tool ${shown(name)}; ${hint}`, { details: { nearest: near } })
}

/** Text from outside as it may stand in a message. */
function shown(name: string): string {
  return `"${name.slice(0, 80).replace(/[^\x20-\x7e]|["\\]/g, '?')}"`
}
