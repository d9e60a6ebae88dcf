import type {
  Deprecation,
  EffectClass,
  Json,
  JsonSchema,
  Paged,
  ToolAnnotations,
  ToolExample,
  Warning,
} from '@gantry/contract'

/** What a circuit breaker counts; times are milliseconds since 1970. */
export interface CircuitStateView {
  readonly state: 'closed' | 'open' | 'trial'
  readonly since: number
  readonly calls: number
  readonly failures: number
  readonly openMs: number
  /** While it is open: when the next trial may begin. */
  readonly retryAt?: number
}

/**
 * The circuit breaker of a tool at a backend, or at one origin behind it. It is open when several tenants find the backend
 * at fault, or the only tenant does.
 */
export interface CircuitView extends CircuitStateView {
  readonly key: string
  /** What each tenant sees: of the asker's tenant, and of all tenants to who holds `gantry:tenants`. */
  readonly tenants: readonly (CircuitStateView & { readonly tenant: string })[]
}

/** A runtime for programs, as `gantry doctor` shows it. */
export interface RuntimeView {
  readonly kind: string
  readonly available: boolean
  readonly isolation: string
  readonly version: string | null
  readonly startMs: number | null
  readonly limits: { readonly [limit: string]: string }
  readonly languages: readonly string[]
  readonly attacks: readonly string[]
  readonly breached: readonly string[]
  /** Why it is not available, and what to do. */
  readonly reason?: string
  readonly remedy?: string
}

/** A tool as search shows it. */
export interface FoundTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly score: number
}

/** A tool as a list shows it. */
export interface ListedTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  readonly digest: string
}

/** Documentation of one tool; the level decides which parts are there. */
export interface ToolDoc {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly summary: string
  readonly tags?: readonly string[]
  readonly effect: EffectClass
  readonly deprecated?: Deprecation
  readonly declaration?: string
  readonly digest?: string
  readonly inputSchema?: JsonSchema
  readonly outputSchema?: JsonSchema
  readonly required?: readonly string[]
  readonly defaults?: { readonly [argument: string]: Json }
  readonly description?: string
  readonly annotations?: ToolAnnotations
  readonly docs?: string
  readonly examples?: readonly ToolExample[]
  readonly permissions?: readonly string[]
  readonly versions?: readonly string[]
  /** Parts that exceeded the budget. */
  readonly omitted: readonly (keyof ToolDoc)[]
}

/** One version of a tool in the catalog. */
export interface CatalogTool {
  readonly id: string
  readonly version: string
  readonly digest: string
  readonly effect: string
  readonly source: string
}

/** What a search found. */
export interface FoundPage extends Paged<FoundTool> {
  /** The answer is good, but something is missing from it. */
  readonly warning?: Warning
}

export interface CatalogPage extends Paged<CatalogTool> {
  /** The same as long as nothing changes of what the caller may use. */
  readonly hash: string
}
