import { type Tool, ToolError } from '@gantry/contract'
import type { Backend, Published } from './backends/backend.ts'
import type { Catalog } from './catalogs/catalog.ts'
import { type Difference, definitionHash, definitionOf, differences } from './pins/definition.ts'
import type { Pin, PinStore } from './pins/pin.ts'
import { type Quarantined, review } from './pins/review.ts'
import { backendKey } from './pipeline/registry.ts'

/** A tool that may not be called until somebody approves it, with what is different about it. */
export interface QuarantinedTool {
  /** `namespace:name`. */
  readonly id: string
  /** The backend that offers it. */
  readonly backend: string
  readonly reason: Quarantined['reason']
  /** SHA-256 of the definition as it is offered now; `approve` with it trusts this definition and no other. */
  readonly hash: string
  readonly differences: readonly Difference[]
}

export interface DiscoveredToolsParts {
  readonly catalog: Catalog
  readonly pins: PinStore
  /** ISO time for new pins. */
  readonly now: () => string
  readonly quarantined: (tool: QuarantinedTool) => void
}

export interface ApproveOptions {
  /** Of the definition that was looked at; another one is CATALOG_STALE, and nothing changes. */
  readonly hash?: string | undefined
  /** Who approves; `host` when absent. */
  readonly by?: string | undefined
  readonly signal?: AbortSignal | undefined
}

interface Held {
  readonly backend: Backend
  readonly tool: Tool
  readonly shown: QuarantinedTool
}

/**
 * The tools of one executor that backends bring: into the catalog those that are trusted, into quarantine the rest.
 * What one backend publishes is taken in one piece after the other, so that two lists cannot mix.
 */
export class DiscoveredTools {
  readonly #parts: DiscoveredToolsParts
  readonly #turns = new Map<Backend, Promise<unknown>>()
  readonly #registered = new Map<Backend, ReadonlySet<string>>()
  readonly #held = new Map<string, Held>()
  readonly #gone = new WeakSet<Backend>()

  constructor(parts: DiscoveredToolsParts) {
    this.#parts = parts
  }

  quarantined(): readonly QuarantinedTool[] {
    return [...this.#held.values()].map(({ shown }) => shown)
  }

  isQuarantined(key: string): boolean {
    return this.#held.has(key)
  }

  publish(backend: Backend, tools: readonly Tool[], signal: AbortSignal): Promise<Published> {
    return this.#inTurn(backend, () => this.#take(backend, tools, signal))
  }

  /** Takes away all that a backend brought; what it still publishes afterwards is refused. */
  async remove(backend: Backend): Promise<void> {
    this.#gone.add(backend)
    this.#clear(backend)
    // A list that is being taken in may still register something.
    await this.#inTurn(backend, async () => this.#clear(backend))
    this.#turns.delete(backend)
  }

  #clear(backend: Backend): void {
    for (const key of this.#registered.get(backend) ?? []) this.#parts.catalog.unregister(key)
    this.#registered.delete(backend)
    this.#hold(backend, [], [])
  }

  /** Trusts a quarantined tool as it is now; what it becomes after that is compared with this. */
  async approve(id: string, { hash, by = 'host' }: ApproveOptions, signal: AbortSignal): Promise<void> {
    const held = this.#find(id)
    const wanted = hash ?? held.shown.hash
    await this.#inTurn(held.backend, () => this.#approve(id, wanted, by, signal))
  }

  async #approve(id: string, hash: string, by: string, signal: AbortSignal): Promise<void> {
    const { backend, tool, shown } = this.#find(id)
    if (shown.hash !== hash) throw new ToolError('CATALOG_STALE', `${id} changed since it was looked at; look again.`)
    const source = backendKey(backend.kind, backend.name)
    const { pins } = this.#parts
    const before = (await pins.load(source, signal))?.[tool.name]
    const since = before === undefined ? {} : { since: before.since ?? before.at }
    const pin: Pin = { hash, definition: definitionOf(tool), at: this.#parts.now(), ...since, by }
    await pins.save(source, { [tool.name]: pin }, signal)
    this.#parts.catalog.update(tool, { source })
    this.#held.delete(id)
    this.#registered.set(backend, new Set([...(this.#registered.get(backend) ?? []), id]))
  }

  #find(id: string): Held {
    const held = this.#held.get(id)
    if (held === undefined) throw new ToolError('TOOL_NOT_FOUND', `${id} is not in quarantine.`)
    return held
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
    for (const [id, held] of this.#held) if (held.backend === backend) this.#held.delete(id)
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
      this.#held.set(id, { backend, tool, shown })
      this.#parts.quarantined(shown)
    }
  }

  #inTurn<T>(backend: Backend, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(backend) ?? Promise.resolve()
    const mine = before.then(work, work)
    this.#turns.set(
      backend,
      mine.catch(() => undefined),
    )
    return mine
  }
}

function plain(tools: readonly Tool[]): { trusted: readonly Tool[]; quarantined: readonly Quarantined[] } {
  return { trusted: tools, quarantined: [] }
}

/** A backend speaks for its own namespace only, and no name may be one that a file of pins cannot hold. */
function strangeness({ name, kind }: Backend, tool: Tool): string | undefined {
  if (tool.namespace !== name) return `its namespace is not ${name}, the name of the backend`
  if (tool.name === '__proto__') return 'its name is not allowed'
  const bound = tool.backends.every((binding) => binding.kind === kind && (binding.name ?? name) === name)
  return bound ? undefined : 'it is bound to another backend'
}
