import { type Tool, ToolError } from '@gantry/contract'
import type { Backend, Published } from './backends/backend.ts'
import type { Catalog } from './catalogs/catalog.ts'
import {
  type Difference,
  definitionHash,
  definitionOf,
  differences,
  type Quarantined,
  review,
} from './pins/definition.ts'
import type { Pin, PinStore } from './pins/pin.ts'
import type { Sources } from './pipeline/ports.ts'
import { backendKey } from './pipeline/resolve.ts'
import { unlessAborted } from './resilience/abort.ts'

/** A backend whose discovery failed. */
export interface SourceFault {
  readonly backend: string
  readonly error: ToolError
}

interface BackendSources extends Sources {
  /** Discovers every backend that is not discovered yet; resolves with those that failed. Ends early with the signal. */
  ready(signal?: AbortSignal): Promise<readonly SourceFault[]>
  add(backend: Backend): void
  remove(backend: Backend): void
}

/** The pause after a failed discovery, doubled each time, so that not every search waits for that backend. */
const firstPauseMs = 1_000
const longestPauseMs = 30_000

/**
 * # States of a backend whose tools are discovered
 *
 * - `idle`: its tools were not listed yet, or the last attempt failed and its reason is kept.
 * - `asking`: one request for the list is under way, which every lookup waits for.
 * - `known`: the list was received.
 *
 * | from   | to     | cause                                                          |
 * | ------ | ------ | -------------------------------------------------------------- |
 * | idle   | asking | a lookup needs the tools, and the pause after a failure passed |
 * | asking | known  | the list arrives                                               |
 * | asking | idle   | the request fails; the pause doubles                           |
 */
class Source {
  readonly key: string
  readonly backend: Backend
  readonly #shown: (text: string) => string
  #pauseMs = firstPauseMs
  #asking: Promise<void> | undefined
  #known = false
  #failed: { readonly error: ToolError; readonly at: number } | undefined

  /** `shown` redacts the secrets of the backend's connection. */
  constructor(backend: Backend, shown: (text: string) => string) {
    this.backend = backend
    this.#shown = shown
    this.key = backendKey(backend.kind, backend.name)
  }

  get failure(): ToolError | undefined {
    return this.#failed?.error
  }

  get isKnown(): boolean {
    return this.#known
  }

  /** Never rejects. Undefined when there is nothing to wait for. */
  ask(signal: AbortSignal, now: number): Promise<void> | undefined {
    if (this.#known || this.#asking !== undefined) return this.#asking
    if (this.#failed !== undefined && now - this.#failed.at < this.#pauseMs) return undefined
    this.#asking = this.#discover(signal)
    return this.#asking
  }

  async #discover(signal: AbortSignal): Promise<void> {
    try {
      await this.backend.discover?.(signal)
      this.#known = true
      this.#failed = undefined
    } catch (cause) {
      this.#pauseMs = this.#failed === undefined ? firstPauseMs : Math.min(this.#pauseMs * 2, longestPauseMs)
      this.#failed = { error: unknownTools(this.key, cause, this.#shown), at: performance.now() }
    } finally {
      this.#asking = undefined
    }
  }
}

/** The error of a call to a backend whose discovery failed: the backend's own reason, without effect. */
function unknownTools(key: string, cause: unknown, shown: (text: string) => string): ToolError {
  const reason = shown(cause instanceof Error ? cause.message : 'no reason was given')
  const message = `The tools of ${key} could not be discovered: ${reason}`
  const known = ToolError.is(cause) && cause.code !== 'BACKEND_FAILED' && cause.code !== 'TIMEOUT' ? cause : undefined
  const retryable = known === undefined ? {} : { retryable: known.retryable }
  return new ToolError(known?.code ?? 'BACKEND_UNAVAILABLE', message, {
    // Redacted here, because no run redacts this error later.
    cause: new Error(reason),
    stage: 'lookup',
    effect: 'none',
    ...retryable,
  })
}

/** `life` aborts running discoveries when the executor closes. */
export function createSources(
  backends: readonly Backend[],
  shown: (backend: Backend, text: string) => string,
  isQuarantined: (key: string) => boolean,
  life: AbortSignal,
): BackendSources {
  const sources = new Map<string, Source[]>()
  const add = (backend: Backend): void => {
    if (backend.discover === undefined) return
    const source = new Source(backend, (text) => shown(backend, text))
    sources.set(backend.name, [...(sources.get(backend.name) ?? []), source])
  }
  for (const backend of backends) add(backend)
  const all = (): Source[] => [...sources.values()].flat()
  const of = (id: string): readonly Source[] => {
    const colon = typeof id === 'string' ? id.indexOf(':') : -1
    return colon < 0 ? [] : (sources.get(id.slice(0, colon)) ?? [])
  }
  const askAll = (asked: readonly Source[]): Promise<void> | undefined => {
    const waits = asked.flatMap((source) => source.ask(life, performance.now()) ?? [])
    return waits.length === 0 ? undefined : Promise.all(waits).then(() => undefined)
  }
  return {
    add,
    remove(backend) {
      const left = (sources.get(backend.name) ?? []).filter((source) => source.backend !== backend)
      if (left.length === 0) sources.delete(backend.name)
      else sources.set(backend.name, left)
    },
    pending: (id) => askAll(of(id)),
    unasked: (id) => of(id).find(({ isKnown, failure }) => !isKnown && failure === undefined)?.key,
    refusal(id) {
      const key = keyOf(id)
      if (isQuarantined(key)) return quarantined(key)
      return of(id).find(({ failure }) => failure !== undefined)?.failure
    },
    async ready(signal) {
      const waiting = askAll(all())
      // Discovery goes on after the caller's signal aborts: other callers wait for the same answer.
      if (waiting !== undefined) await (signal === undefined ? waiting : unlessAborted(waiting, signal, cancelled))
      return all().flatMap(({ key, failure }) => (failure === undefined ? [] : [{ backend: key, error: failure }]))
    },
  }
}

/** The id without its version. */
function keyOf(id: string): string {
  return String(id).split(':', 2).join(':')
}

function quarantined(key: string): ToolError {
  const message = `${key} is quarantined: its definition is not the approved one; see \`gantry tools diff ${key}\`.`
  return new ToolError('TOOL_QUARANTINED', message)
}

function cancelled(cause: unknown): ToolError {
  return new ToolError('CANCELLED', 'The search was cancelled.', { cause })
}

/** A quarantined tool, which may not be called until an operator approves it, with its changes. */
export interface QuarantinedTool {
  /** `namespace:name`. */
  readonly id: string
  /** The backend of the tool. */
  readonly backend: string
  readonly reason: Quarantined['reason']
  /** SHA-256 of the current definition. `approve` with it trusts this definition only. */
  readonly hash: string
  readonly differences: readonly Difference[]
}

interface DiscoveredToolsParts {
  readonly catalog: Catalog
  readonly pins: PinStore
  /** ISO time for new pins. */
  readonly now: () => string
  readonly quarantined: (tool: QuarantinedTool) => void
}

export interface ApproveOptions {
  /** Hash of the reviewed definition. CATALOG_STALE, without a change, if the current one differs. */
  readonly hash?: string | undefined
  /** The approver; `host` when absent. */
  readonly by?: string | undefined
  readonly signal?: AbortSignal | undefined
}

interface QuarantineEntry {
  readonly backend: Backend
  readonly tool: Tool
  readonly shown: QuarantinedTool
}

/**
 * The tools that backends of one executor publish: trusted ones go to the catalog, others to quarantine.
 * The lists of one backend are applied one after the other, so that two lists cannot mix.
 */
export class DiscoveredTools {
  readonly #parts: DiscoveredToolsParts
  readonly #queues = new Map<Backend, Promise<unknown>>()
  readonly #registered = new Map<Backend, ReadonlySet<string>>()
  readonly #quarantined = new Map<string, QuarantineEntry>()
  readonly #gone = new WeakSet<Backend>()

  constructor(parts: DiscoveredToolsParts) {
    this.#parts = parts
  }

  quarantined(): readonly QuarantinedTool[] {
    return [...this.#quarantined.values()].map(({ shown }) => shown)
  }

  isQuarantined(key: string): boolean {
    return this.#quarantined.has(key)
  }

  publish(backend: Backend, tools: readonly Tool[], signal: AbortSignal): Promise<Published> {
    return this.#enqueue(backend, () => this.#take(backend, tools, signal))
  }

  /** Removes all tools of a backend. Lists that it publishes later are refused. */
  async remove(backend: Backend): Promise<void> {
    this.#gone.add(backend)
    this.#clear(backend)
    // A list that is being applied may still register tools.
    await this.#enqueue(backend, async () => this.#clear(backend))
    this.#queues.delete(backend)
  }

  #clear(backend: Backend): void {
    for (const key of this.#registered.get(backend) ?? []) this.#parts.catalog.unregister(key)
    this.#registered.delete(backend)
    this.#hold(backend, [], [])
  }

  /** Trusts the current definition of a quarantined tool; later definitions are compared with it. */
  async approve(id: string, { hash, by = 'host' }: ApproveOptions, signal: AbortSignal): Promise<void> {
    const entry = this.#find(id)
    const wanted = hash ?? entry.shown.hash
    await this.#enqueue(entry.backend, () => this.#approve(id, wanted, by, signal))
  }

  async #approve(id: string, hash: string, by: string, signal: AbortSignal): Promise<void> {
    const { backend, tool, shown } = this.#find(id)
    if (shown.hash !== hash)
      throw new ToolError('CATALOG_STALE', `${id} changed since it was reviewed; review it again.`)
    const source = backendKey(backend.kind, backend.name)
    const { pins } = this.#parts
    const before = (await pins.load(source, signal))?.[tool.name]
    const since = before === undefined ? {} : { since: before.since ?? before.at }
    const pin: Pin = { hash, definition: definitionOf(tool), at: this.#parts.now(), ...since, by }
    await pins.save(source, { [tool.name]: pin }, signal)
    this.#parts.catalog.update(tool, { source })
    this.#quarantined.delete(id)
    this.#registered.set(backend, new Set([...(this.#registered.get(backend) ?? []), id]))
  }

  #find(id: string): QuarantineEntry {
    const entry = this.#quarantined.get(id)
    if (entry === undefined) throw new ToolError('TOOL_NOT_FOUND', `${id} is not in quarantine.`)
    return entry
  }

  async #take(backend: Backend, tools: readonly Tool[], signal: AbortSignal): Promise<Published> {
    if (this.#gone.has(backend)) return { registered: [], quarantined: [], refused: [] }
    const source = backendKey(backend.kind, backend.name)
    const refused: { name: string; reason: string }[] = []
    const own = tools.filter((tool) => {
      const reason = strangeness(backend, tool)
      if (reason !== undefined) refused.push({ name: String(tool.name), reason })
      return reason === undefined
    })
    const { trusted, quarantined } = backend.pinned ? await this.#review(source, own, signal) : plain(own)
    const registered = new Set<string>()
    for (const tool of trusted) {
      try {
        registered.add(this.#parts.catalog.update(tool, { source }).key)
      } catch (error) {
        refused.push({ name: tool.name, reason: error instanceof Error ? error.message : 'it was refused' })
      }
    }
    this.#hold(backend, own, quarantined)
    for (const key of this.#registered.get(backend) ?? []) {
      if (!registered.has(key)) this.#parts.catalog.unregister(key)
    }
    this.#registered.set(backend, registered)
    return { registered: [...registered], quarantined: quarantined.map(({ name }) => name), refused }
  }

  async #review(source: string, tools: readonly Tool[], signal: AbortSignal) {
    const before = await this.#parts.pins.load(source, signal)
    const result = review(tools, before, this.#parts.now())
    const news = before === undefined || Object.keys(result.fresh).length > 0
    if (news) await this.#parts.pins.save(source, result.fresh, signal)
    return result
  }

  #hold(backend: Backend, tools: readonly Tool[], quarantined: readonly Quarantined[]): void {
    for (const [id, entry] of this.#quarantined) if (entry.backend === backend) this.#quarantined.delete(id)
    for (const { name, reason, before, after } of quarantined) {
      const tool = tools.find((one) => one.name === name)
      if (tool === undefined) continue
      const id = `${tool.namespace}:${name}`
      const shown: QuarantinedTool = {
        id,
        backend: backendKey(backend.kind, backend.name),
        reason,
        hash: definitionHash(after),
        differences: differences(before, after),
      }
      this.#quarantined.set(id, { backend, tool, shown })
      this.#parts.quarantined(shown)
    }
  }

  #enqueue<T>(backend: Backend, work: () => Promise<T>): Promise<T> {
    const before = this.#queues.get(backend) ?? Promise.resolve()
    const mine = before.then(work, work)
    this.#queues.set(
      backend,
      mine.catch(() => undefined),
    )
    return mine
  }
}

function plain(tools: readonly Tool[]): { trusted: readonly Tool[]; quarantined: readonly Quarantined[] } {
  return { trusted: tools, quarantined: [] }
}

/** Why a published tool is refused: a backend may publish only in its own namespace, under names that a pin file can hold. */
function strangeness({ name, kind }: Backend, tool: Tool): string | undefined {
  if (tool.namespace !== name) return `its namespace is not ${name}, the name of the backend`
  if (tool.name === '__proto__') return 'its name is not allowed'
  const bound = tool.backends.every((binding) => binding.kind === kind && (binding.name ?? name) === name)
  return bound ? undefined : 'it is bound to another backend'
}
