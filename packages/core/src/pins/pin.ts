import type { JsonSchema, ToolAnnotations } from '@gantry/contract'

/** What a model reads of a tool, which is what a poisoned change would be in. */
export interface PinnedDefinition {
  readonly name: string
  readonly title?: string
  readonly description: string
  readonly inputSchema: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly annotations?: ToolAnnotations
}

/** A definition that somebody trusts, by the hash of its canonical JSON. */
export interface Pin {
  readonly hash: string
  readonly definition: PinnedDefinition
  /** When it was pinned, ISO 8601. */
  readonly at: string
  /** `first-use`, or who approved it. */
  readonly by: string
}

/** Pins of one source (`mcp:files`) by tool name. */
export type Pins = { readonly [tool: string]: Pin }

/**
 * Where pins are kept between runs.
 * - Concurrency: calls of one source may overlap; a `save` is whole or not at all.
 * - Errors: a rejection keeps the source's tools out of the catalog, because unpinned tools may not run.
 */
export interface PinStore {
  /** Undefined when the source was never seen. */
  load(source: string, signal: AbortSignal): Promise<Pins | undefined>
  save(source: string, pins: Pins, signal: AbortSignal): Promise<void>
}
