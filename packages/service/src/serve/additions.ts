import type { Approver, Artifacts, Audit, DefinedTool, SafeguardOptions, Tracer } from '@gantry/core'
import type { Knowledge } from '@gantry/knowledge'
import type { KnowledgeOptions } from '../storage/knowledge/knowledge.ts'

/** What the service adds to the executor of a configuration. */
export interface Additions {
  readonly audit: Audit
  readonly tools: readonly DefinedTool[]
  /** Makes what keeps the texts of tenants. */
  readonly knowledge?: (options: KnowledgeOptions) => Knowledge
  /** The files of calls. */
  readonly artifacts?: Artifacts
  /** Who may try a circuit that rests, where others have it too. */
  readonly trials?: SafeguardOptions['trials']
  readonly tracer?: Tracer | undefined
  /** The time of the database, in milliseconds since 1970. */
  readonly now?: () => number
  /** Of the digests that stand for what is hidden in arguments. */
  readonly redactionKey?: string
  /** Asks persons; without one, calls that need approval end. */
  readonly approver?: Approver
}
