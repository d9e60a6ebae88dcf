import { type Tool, ToolError } from '@gantry/contract'
import { quote } from '../ids/quote.ts'
import { parseToolId, type ToolId } from '../ids/tool-id.ts'
import { parseRange, parseVersion, type Version } from '../ids/version.ts'
import { SortedStrings } from '../search/index.ts'
import type {
  Catalog,
  CatalogChange,
  CatalogEntry,
  ListQuery,
  NamespaceInfo,
  Page,
  RegisterOptions,
  SearchOptions,
  SearchPage,
  Viewer,
} from './catalog.ts'
import { CatalogHash, callDigest, sameRun, toolDigest } from './digests.ts'
import type { Embedder } from './embeddings.ts'
import { pageLimit, queryText } from './filter.ts'
import { Names, nearestKeys } from './names.ts'
import { CatalogSearch } from './search.ts'
import { checkTool, invalid } from './tool-check.ts'
import { listPage, Versions } from './versions.ts'

type Listener = (change: CatalogChange) => void

/** Emits changes to listeners. An error of a listener goes to `report` and does not affect other listeners. */
class Changes {
  readonly #listeners = new Set<Listener>()
  readonly #report: (error: unknown) => void

  constructor(report: (error: unknown) => void) {
    this.#report = report
  }

  /** Subscribing the same function twice makes two subscriptions. */
  subscribe(listener: Listener): () => void {
    const own: Listener = (change) => listener(change)
    this.#listeners.add(own)
    return () => {
      this.#listeners.delete(own)
    }
  }

  /** Whether there is a listener. */
  get hasListeners(): boolean {
    return this.#listeners.size > 0
  }

  emit(change: CatalogChange): void {
    for (const listener of [...this.#listeners]) {
      try {
        const returned: unknown = listener(change)
        if (returned instanceof Promise) returned.catch(this.#report)
      } catch (error) {
        this.#report(error)
      }
    }
  }
}

interface MemoryCatalogOptions {
  /** Makes `search` find tools by meaning as well as by words. */
  readonly embedder?: Embedder | undefined
  /** Timeout of each embedder call in milliseconds; 10,000 when absent. */
  readonly embedMs?: number | undefined
  /** Called with the error of a listener; without it such an error is dropped. */
  readonly onListenerError?: ((error: unknown) => void) | undefined
}

/** Node timers overflow beyond this and fire at once. */
const longestMs = 2_147_483_647

/** Bounds the cache of resolved ids against callers that invent ids. */
const maxRemembered = 10_000

/** A catalog in the memory of this process. */
export function memoryCatalog(options: MemoryCatalogOptions = {}): Catalog {
  return new MemoryCatalog(options)
}

/** An admitted tool and the registered versions of its key. */
interface Admitted {
  readonly entry: CatalogEntry
  readonly version: Version
  readonly versions: Versions | undefined
}

class MemoryCatalog implements Catalog {
  readonly #versions = new Map<string, Versions>()
  readonly #names = new Names()
  /** Created on first use, like the hash: a program that only calls tools by id needs neither. */
  #keys: SortedStrings | undefined
  #hash: CatalogHash | undefined
  readonly #found = new Map<string, CatalogEntry>()
  readonly #changes: Changes
  readonly #search: CatalogSearch
  #size = 0

  constructor(options: MemoryCatalogOptions) {
    this.#changes = new Changes(options.onListenerError ?? (() => undefined))
    this.#search = new CatalogSearch({
      keys: () => this.#versions.keys(),
      shown: (key) => this.#versions.get(key)?.head,
      aliases: (key) => this.#aliasesOf(key),
      embedder: options.embedder,
      embedMs: embedTime(options.embedMs),
    })
  }

  get hash(): string {
    this.#hash ??= this.#hashOfAll()
    return this.#hash.read()
  }

  get size(): number {
    return this.#size
  }

  register(tool: Tool, options: RegisterOptions = {}): CatalogEntry {
    const { entry, version, versions } = this.#admit(tool, options)
    const existing = versions?.get(version)
    if (existing === undefined) return this.#put(entry, version, versions)
    if (existing.digest === entry.digest && sameRun(existing.tool, entry.tool)) return existing
    throw invalid(tool, [{ path: '/version', message: `${quote(existing.id)} is registered with another definition` }])
  }

  update(tool: Tool, options: RegisterOptions = {}): CatalogEntry {
    const { entry, version, versions } = this.#admit(tool, options)
    const existing = versions?.get(version)
    if (existing?.digest === entry.digest && sameRun(existing.tool, entry.tool)) return existing
    return this.#put(entry, version, versions)
  }

  unregister(id: string): boolean {
    const parsed = parseToolId(id)
    const versions = this.#versions.get(keyOf(parsed))
    const exact = parsed.version === undefined ? undefined : parseVersion(parsed.version)
    if (versions === undefined || (parsed.version !== undefined && exact === undefined)) return false
    const one = exact === undefined ? undefined : versions.get(exact)
    if (exact !== undefined && one === undefined) return false
    const gone = one === undefined ? versions.entries : [one]
    const shown = versions.head
    for (const entry of gone) this.#drop(versions, entry)
    this.#emit('unregistered', keyOf(parsed), gone, shown)
    return true
  }

  find(id: string, onlooker?: Viewer): CatalogEntry {
    const known = this.#found.get(id)
    if (known !== undefined && (onlooker === undefined || onlooker.finds(known))) return known
    const parsed = parseToolId(id)
    const all = this.#named(parsed)
    const versions = onlooker === undefined ? all : foundBy(onlooker, all, keyOf(parsed))
    if (versions === undefined) throw this.#notFound(id, parsed, onlooker)
    const range = parsed.version === undefined ? undefined : parseRange(parsed.version)
    const entry = range === undefined ? versions.stable : versions.match(range)
    if (entry === undefined) throw this.#noVersion(id, parsed, versions, onlooker)
    if (versions !== all) return entry
    if (this.#found.size >= maxRemembered) this.#found.clear()
    this.#found.set(id, entry)
    return entry
  }

  versions(id: string): readonly string[] {
    return this.#named(parseToolId(id))?.entries.map(({ tool }) => tool.version) ?? []
  }

  list(query: ListQuery = {}): Page<CatalogEntry> {
    return listPage(this.#sortedKeys(), this.#versions, query)
  }

  async search(query: string, options: SearchOptions = {}): Promise<SearchPage> {
    if (queryText(query) !== '') return this.#search.search(query, options)
    const page = this.list({ ...options, limit: pageLimit(options.limit, 10, 100) })
    return { ...page, items: page.items.map((entry) => ({ entry, score: 0 })) }
  }

  namespaces(): readonly NamespaceInfo[] {
    return this.#names.namespaces()
  }

  subscribe(listener: (change: CatalogChange) => void): () => void {
    return this.#changes.subscribe(listener)
  }

  /** Makes every check before the catalog changes. */
  #admit(tool: Tool, { source = 'local' }: RegisterOptions): Admitted {
    const { tool: checked, version } = checkTool(tool)
    const { namespace, name, aliases = [] } = checked
    const key = `${namespace}:${name}`
    const claim = this.#names.claimOf(key)
    const conflicts = this.#names.conflicts(claim, key, namespace, aliases)
    if (conflicts.length > 0) throw invalid(tool, conflicts)
    const versions = claim && this.#versions.get(key)
    const owner = versions?.head?.source ?? source
    if (owner !== source) throw invalid(tool, [{ path: '/name', message: `belongs to the source ${quote(owner)}` }])
    const id = `${key}:${checked.version}`
    return { entry: new Entry(id, key, checked, source), version, versions }
  }

  #put(entry: CatalogEntry, version: Version, known: Versions | undefined): CatalogEntry {
    const versions = known ?? this.#open(entry.key)
    const shown = versions.head
    const replaced = versions.put(entry, version)
    if (replaced !== undefined) this.#forget(replaced)
    this.#names.claim(entry.key, entry.tool.namespace, entry.tool.aliases ?? [])
    this.#hash?.add(entry)
    this.#size += 1
    this.#emit(replaced === undefined ? 'registered' : 'updated', entry.key, [entry], shown)
    return entry
  }

  #open(key: string): Versions {
    const versions = new Versions()
    this.#versions.set(key, versions)
    this.#keys?.add(key)
    return versions
  }

  #drop(versions: Versions, entry: CatalogEntry): void {
    versions.delete(entry)
    this.#forget(entry)
    if (versions.size > 0) return
    this.#versions.delete(entry.key)
    this.#keys?.delete(entry.key)
  }

  /** Removes an entry from the shared tables. */
  #forget(entry: CatalogEntry): void {
    this.#names.release(entry.key, entry.tool.namespace, entry.tool.aliases ?? [])
    this.#hash?.remove(entry)
    this.#size -= 1
  }

  #sortedKeys(): SortedStrings {
    if (this.#keys !== undefined) return this.#keys
    this.#keys = new SortedStrings()
    for (const key of this.#versions.keys()) this.#keys.add(key)
    return this.#keys
  }

  #hashOfAll(): CatalogHash {
    const hash = new CatalogHash()
    for (const versions of this.#versions.values()) for (const entry of versions.entries) hash.add(entry)
    return hash
  }

  #emit(
    kind: CatalogChange['kind'],
    key: string,
    entries: readonly CatalogEntry[],
    shown: CatalogEntry | undefined,
  ): void {
    if (this.#found.size > 0) this.#found.clear()
    this.#search.changed(key, shown)
    if (this.#changes.hasListeners) this.#changes.emit({ kind, key, ids: entries.map(({ id }) => id) })
  }

  #aliasesOf(key: string): readonly string[] {
    const entries = this.#versions.get(key)?.entries ?? []
    return [...new Set(entries.flatMap(({ tool }) => tool.aliases ?? []))]
  }

  #named(id: ToolId): Versions | undefined {
    const key = keyOf(id)
    return this.#versions.get(key) ?? this.#versions.get(this.#names.target(key) ?? '')
  }

  #noVersion(id: string, parsed: ToolId, versions: Versions, onlooker: Viewer | undefined): ToolError {
    const shown = onlooker === undefined ? versions : versions.only((entry) => onlooker.sees(entry))
    return shown === undefined ? this.#notFound(id, parsed, onlooker) : noVersion(id, shown)
  }

  #notFound(id: string, parsed: ToolId, onlooker: Viewer | undefined): ToolError {
    const near = nearestKeys(parsed, this.namespaces(), this.#sortedKeys(), (key) => {
      const versions = this.#versions.get(key)
      return (onlooker === undefined ? versions : versions?.only((entry) => onlooker.sees(entry))) !== undefined
    })
    const hint = near.length === 0 ? 'search the catalog' : `did you mean ${near.join(', ')}?`
    return new ToolError('TOOL_NOT_FOUND', `There is no tool ${quote(id)}; ${hint}`, { details: { nearest: near } })
  }
}

/** Computes its digests on first use, because most are never read. */
class Entry implements CatalogEntry {
  readonly id: string
  readonly key: string
  readonly tool: Tool
  readonly source: string
  #digest: string | undefined
  #callDigest: string | undefined

  constructor(id: string, key: string, tool: Tool, source: string) {
    this.id = id
    this.key = key
    this.tool = tool
    this.source = source
    Object.freeze(this)
  }

  get digest(): string {
    this.#digest ??= toolDigest(this.tool)
    return this.#digest
  }

  get callDigest(): string {
    this.#callDigest ??= callDigest(this.tool)
    return this.#callDigest
  }
}

function embedTime(ms = 10_000): number {
  if (typeof ms === 'number' && ms > 0 && ms <= longestMs) return ms
  const issues = [{ path: '/embedMs', message: `must be a number above 0 and at most ${longestMs}` }]
  throw new ToolError('CONFIG_INVALID', `The option embedMs ${issues[0]?.message}.`, { details: { issues } })
}

function keyOf({ namespace, name }: ToolId): string {
  return `${namespace}:${name}`
}

/** The versions of a name that are visible to a viewer. An alias that only hidden versions declare does not resolve. */
function foundBy(onlooker: Viewer, all: Versions | undefined, name: string): Versions | undefined {
  const found = all?.only((entry) => onlooker.finds(entry))
  const declares = ({ key, tool }: CatalogEntry): boolean => key === name || (tool.aliases?.includes(name) ?? false)
  return found === all || found?.entries.some(declares) ? found : undefined
}

function noVersion(id: string, held: Versions): ToolError {
  const ids = held.entries.slice(0, 10).map((entry) => entry.id)
  const versions = held.entries.slice(0, 10).map(({ tool }) => tool.version)
  return new ToolError('TOOL_NOT_FOUND', `No version matches ${quote(id)}; there are ${versions.join(', ')}.`, {
    details: { nearest: ids.slice(0, 3), versions },
  })
}

/**
 * The catalog with one more tool, which resolves by its id and is neither listed nor searched. A tool with the same name
 * in the catalog takes precedence.
 */
export function withHidden(catalog: Catalog, tool: Tool): Catalog {
  const key = `${tool.namespace}:${tool.name}`
  let hidden: Catalog | undefined
  const hiddenCatalog = (): Catalog => {
    if (hidden !== undefined) return hidden
    hidden = memoryCatalog()
    hidden.register(tool)
    return hidden
  }
  const catalogFor = (id: string): Catalog => {
    const isMeant = typeof id === 'string' && id.startsWith(key) && (id.length === key.length || id[key.length] === ':')
    return isMeant && catalog.versions(key).length === 0 ? hiddenCatalog() : catalog
  }
  return {
    register: (added, options) => catalog.register(added, options),
    update: (changed, options) => catalog.update(changed, options),
    unregister: (id) => catalog.unregister(id),
    find: (id, onlooker) => catalogFor(id).find(id, onlooker),
    versions: (id) => catalogFor(id).versions(id),
    list: (query) => catalog.list(query),
    search: (query, options) => catalog.search(query, options),
    namespaces: () => catalog.namespaces(),
    get hash() {
      return catalog.hash
    },
    get size() {
      return catalog.size
    },
    subscribe: (listener) => catalog.subscribe(listener),
  }
}
