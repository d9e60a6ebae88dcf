import type {
  BackendBinding,
  CallLimits,
  Identity,
  JsonObject,
  OnCircuitOpen,
  Report,
  RetryRule,
  ToolError,
} from '@gantry/contract'
import type { Artifacts } from '../artifacts/artifact.ts'
import type { Audit } from '../audits/audit.ts'
import type { Backend } from '../backends/backend.ts'
import type { InnerCalls, ProgramNesting } from '../backends/inner-calls.ts'
import type { ProgramJournal, WriteBack } from '../backends/program-journal.ts'
import type { Catalog, CatalogEntry } from '../catalogs/catalog.ts'
import type { NamedTool } from '../ids/tool-pattern.ts'
import type { RedactionMark } from '../json/redact.ts'
import type { Approver, Policy } from '../policies/policy.ts'
import type { RetryBudget } from '../resilience/retry.ts'
import type { Slots } from '../resilience/slots.ts'
import type { SecretSource } from '../secrets/secret.ts'
import type { Tracer } from '../tracing/tracer.ts'
import type { Clock, RunDeadlines } from './clock.ts'
import type { Events } from './events.ts'
import type { PreparedTool, PreparedTools } from './prepare.ts'
import type { Recorded } from './recorded.ts'
import type { BackendRegistry } from './registry.ts'
import type { HeldSecrets } from './secrets.ts'

/** One call as the executor hands it over; identity comes from the host. */
export interface CallRequest {
  readonly callId: string
  readonly tool: string
  readonly args: unknown
  readonly identity: Identity
  readonly idempotencyKey: string | undefined
  readonly fence: number | undefined
  readonly schemaDigest: string | undefined
  /** The place in a trace that the call belongs below, as `readTraceparent` answers it. */
  readonly traceparent: string | undefined
  /** What the gateway says of the occasion; data for the tool, never identity. */
  readonly origin?: JsonObject | undefined
  readonly signal: AbortSignal | undefined
  readonly timeoutMs: number | undefined
  readonly retry: RetryRule | undefined
  readonly onCircuitOpen: OnCircuitOpen | undefined
  /** Key of the backend to use, of those that the tool has. */
  readonly backend: string | undefined
  /** Takes what the tool reports; a promise makes a streaming tool wait. */
  readonly report: ((report: Report) => void | Promise<void>) | undefined
  readonly writeBack: WriteBack | undefined
  readonly program: ProgramJournal | undefined
  /** The program that makes the call, when one does. */
  readonly place?: ProgramNesting | undefined
  /** Stands in for the tool, which is then not run; null when nothing is known of such a call. */
  readonly recorded: Recorded | null | undefined
  /** Takes the error behind a Result that is not ok, with its causes alive where they may be shown. */
  readonly failed: ((failure: ToolError) => void) | undefined
}

/** Ceilings of this executor; a tool or a call may ask for less, never for more. */
export interface PipelineLimits extends Required<CallLimits> {
  /** For calls whose tool and caller name no time. */
  readonly timeoutMs: number
  readonly maxTimeoutMs: number
  /** How long a person may take to approve. */
  readonly approvalMs: number
  /** Calls that a tool may make inside one call, those inside them included. */
  readonly innerCalls: number
  /** How many calls may stand in one another. */
  readonly innerDepth: number
  /** How long an outcome waits to be recorded before it goes out with a warning. */
  readonly auditMs: number
}

/** Everything the pipeline reaches outside itself. */
export interface Ports {
  readonly catalog: Catalog
  readonly prepared: PreparedTools
  readonly registry: BackendRegistry
  readonly sources: Sources
  readonly safeguards: Safeguards
  readonly policy: Policy | undefined
  readonly approver: Approver | undefined
  /** Whether a tool of this name is there for an identity; where it is not, it is as if there were none. */
  readonly exists: (identity: Identity, tool: NamedTool) => boolean
  /** Whether discovery shows an entry to an identity; near names are shown by the same rule. */
  readonly visible: (identity: Identity, entry: CatalogEntry) => boolean
  readonly audit: Audit
  /** Files of callers. */
  readonly artifacts: Artifacts
  /** Whether they are also where the files of a call go whose host keeps none. */
  readonly keepsFiles: boolean
  readonly secrets: SecretSource
  readonly held: HeldSecrets
  /** What stands for hidden parts of arguments, in approvals and in the audit log. */
  readonly mark: RedactionMark
  readonly slots: Slots
  readonly events: Events
  /** Absent, nothing is traced. */
  readonly tracer: Tracer | undefined
  readonly clock: Clock
  readonly random: () => number
  readonly limits: PipelineLimits
  /** The doors with these ports behind them, for programs that make calls; absent where there are none. */
  readonly inner?: (() => InnerCalls) | undefined
  /** Holds every call that waits for something, and ends it in time. */
  readonly deadlines: RunDeadlines
}

/** Tools that backends bring, as far as looking one up is concerned. */
export interface Sources {
  /** Resolves when the backend whose namespace an id names has been asked for its tools; undefined when it was. */
  pending(id: string): Promise<void> | undefined
  /** The key of a backend of that namespace which was not asked yet; nobody is asked by this. */
  unasked(id: string): string | undefined
  /** Why a tool that its backend offers may not be called, or why the backend could not be asked. */
  refusal(id: string): ToolError | undefined
}

/** One attempt that wants to pass. */
export interface GuardedCall {
  readonly tool: PreparedTool
  readonly backend: Backend
  readonly binding: BackendBinding
  readonly args: JsonObject
  readonly tenant: string
}

/** Whose signal ends a wait; read only where there is something to wait for, because it costs a timer. */
export interface Waiting {
  readonly signal: AbortSignal
}

/** One attempt that was let through; exactly one of its functions is called when it has ended. */
export interface Passage {
  succeed(): void
  /** `until` is when the work has really ended, when that is later than the call. */
  fail(failure: ToolError, until?: PromiseLike<unknown>): void
}

/**
 * What stands between a call and its backend: a rate, a number at a time, circuit breakers for each tool,
 * backend and tenant.
 * - Errors: RATE_LIMITED or CIRCUIT_OPEN instead of a passage, all before anything has started.
 */
export interface Safeguards {
  /** Whether anything guards this backend. */
  guards(backend: Backend): boolean
  /** Lets one attempt through when its turn comes, and where it asks others before it tries a circuit. A passage that nobody waits for any more is given back. */
  enter(call: GuardedCall, waiter: Waiting): Passage | Promise<Passage>
  /** What the calls of a backend together may repeat; without one there is no limit. */
  budget(backend: Backend): RetryBudget | undefined
}
