import type { JsonSchema, ToolAnnotations } from '@gantry/contract'

/** The part of a tool that a model reads, where a poisoned change would be, and the raw name on the server. */
export interface PinnedDefinition {
  readonly name: string
  /** The name on the server, when it differs. */
  readonly rawName?: string
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly annotations?: ToolAnnotations
}

/** A trusted definition, by the hash of its canonical JSON. */
export interface Pin {
  readonly hash: string
  readonly definition: PinnedDefinition
  /** Time of the pin, ISO 8601. */
  readonly at: string
  /** Time of the first pin of this name, when it was before `at`. */
  readonly since?: string
  /** `first-use`, or the principal that approved it. */
  readonly by: string
}

/** Pins of one source (`mcp:files`) by tool name. */
export type Pins = { readonly [tool: string]: Pin }

/**
 * A store of pins.
 * - Concurrency: calls for one source may overlap, also across processes that share the store; a `save` is atomic, and
 *   no save undoes another.
 * - Errors: a rejection keeps the tools of the source out of the catalog, because unpinned tools must not run.
 */
export interface PinStore {
  /** Undefined for a source without a save. */
  load(source: string, signal: AbortSignal): Promise<Pins | undefined>
  /** Adds or replaces pins of the source; the source counts as seen. */
  save(source: string, pins: Pins, signal: AbortSignal): Promise<void>
}
