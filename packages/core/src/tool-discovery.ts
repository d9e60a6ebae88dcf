import { ToolError } from '@gantry/contract'
import type { Backend } from './backends/backend.ts'
import type { Sources } from './pipeline/ports.ts'
import { backendKey } from './pipeline/registry.ts'
import { unlessAborted } from './resilience/abort.ts'

/** A backend whose tools could not be found out. */
export interface SourceFault {
  readonly backend: string
  readonly error: ToolError
}

export interface BackendSources extends Sources {
  /** Asks every backend that was not asked yet; gives those that could not be. Ends early with the signal. */
  ready(signal?: AbortSignal): Promise<readonly SourceFault[]>
  add(backend: Backend): void
  remove(backend: Backend): void
}

/** A backend that failed is left alone for this long, twice as long each time, so that not every search waits for it. */
const firstPauseMs = 1_000
const longestPauseMs = 30_000

/**
 * Asks each backend for its tools once, when somebody first needs them: *idle* until then, *asking* while one question
 * is under way that all who come wait for, *known* after it. A question that fails leads back to idle with the reason
 * kept, and the next one who comes after a pause asks again.
 */
class Source {
  readonly key: string
  readonly backend: Backend
  readonly #shown: (text: string) => string
  #pauseMs = firstPauseMs
  #asking: Promise<void> | undefined
  #known = false
  #failed: { readonly error: ToolError; readonly at: number } | undefined

  /** `shown` takes the secrets of the backend's connection out of what it says. */
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

  /** Never rejects; undefined when there is nothing to wait for. */
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

/** What a call of such a tool ends with: the backend's own reason, and nothing can have happened. */
function unknownTools(key: string, cause: unknown, shown: (text: string) => string): ToolError {
  const reason = shown(cause instanceof Error ? cause.message : 'it gave no reason')
  const message = `The tools of ${key} are not known: ${reason}`
  const known = ToolError.is(cause) && cause.code !== 'BACKEND_FAILED' && cause.code !== 'TIMEOUT' ? cause : undefined
  const retryable = known === undefined ? {} : { retryable: known.retryable }
  return new ToolError(known?.code ?? 'BACKEND_UNAVAILABLE', message, {
    // Only what may be shown goes on: no run stands between this error and its reader.
    cause: new Error(reason),
    stage: 'lookup',
    effect: 'none',
    ...retryable,
  })
}

/** `life` ends what is under way when the executor closes. */
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
  const message = `${key} is not what was approved, so it may not be called; see \`gantry tools diff ${key}\`.`
  return new ToolError('TOOL_QUARANTINED', message)
}

function cancelled(cause: unknown): ToolError {
  return new ToolError('CANCELLED', 'The search was cancelled.', { cause })
}
