import type { JsonSchema, ToolAnnotations } from '@gantry/contract'

/** What a model reads of a tool, which is what a poisoned change would be in, and which tool of the server runs then. */
export interface PinnedDefinition {
  readonly name: string
  /** The server's own name for it, when that is another one. */
  readonly rawName?: string
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
  /** When a tool of this name was pinned first, when that was before `at`. */
  readonly since?: string
  /** `first-use`, or who approved it. */
  readonly by: string
}

/** Pins of one source (`mcp:files`) by tool name. */
export type Pins = { readonly [tool: string]: Pin }

/**
 * Where pins are kept between runs.
 * - Concurrency: calls of one source may overlap, from other processes too where they share the store; a `save` is
 *   whole or not at all, and none undoes another.
 * - Errors: a rejection keeps the source's tools out of the catalog, because unpinned tools may not run.
 */
export interface PinStore {
  /** Undefined when the source was never seen. */
  load(source: string, signal: AbortSignal): Promise<Pins | undefined>
  /** Adds these pins to those of the source, each in place of one for the same tool; the source counts as seen. */
  save(source: string, pins: Pins, signal: AbortSignal): Promise<void>
}
