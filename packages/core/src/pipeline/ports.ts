import { performance } from 'node:perf_hooks'
import type {
  BackendBinding,
  CallLimits,
  ErrorInfo,
  Identity,
  JsonObject,
  OnCircuitOpen,
  Report,
  Result,
  RetryRule,
  ToolError,
} from '@gantry/contract'
import type { Artifacts } from '../artifacts/artifact.ts'
import type { Audit } from '../audits/audit.ts'
import type { Backend, BackendReport, InnerCalls, ProgramNesting } from '../backends/backend.ts'
import type { EffectSink, ProgramJournal } from '../backends/program-journal.ts'
import type { Catalog, CatalogChange, CatalogEntry } from '../catalogs/catalog.ts'
import type { EgressEvent } from '../egress/egress.ts'
import type { NamedTool } from '../ids/tool-pattern.ts'
import type { RedactionMark } from '../json/redact.ts'
import type { Approver, Policy } from '../policies/policy.ts'
import type { RetryBudget } from '../resilience/retry.ts'
import type { Slots } from '../resilience/slots.ts'
import type { TenantCircuitEvent } from '../resilience/tenant-circuits.ts'
import type { SecretSource } from '../secrets/secret.ts'
import type { Tracer } from '../tracing/tracer.ts'
import type { ConnectionSecrets } from './context.ts'
import type { Thrown } from './failure.ts'
import type { PreparedTool, PreparedTools } from './lookup.ts'
import type { Recorded } from './record.ts'
import type { BackendRegistry } from './resolve.ts'
import type { RunDeadlines } from './run.ts'

/** One call from the executor. The identity comes from the host. */
export interface CallRequest {
  readonly callId: string
  readonly tool: string
  readonly args: unknown
  readonly identity: Identity
  readonly idempotencyKey: string | undefined
  readonly fence: number | undefined
  readonly schemaDigest: string | undefined
  /** The parent span of the call, as returned by `readTraceparent`. */
  readonly traceparent: string | undefined
  /** Where the call comes from, according to the gateway: data for the tool, never identity. */
  readonly origin?: JsonObject | undefined
  readonly signal: AbortSignal | undefined
  readonly timeoutMs: number | undefined
  readonly retry: RetryRule | undefined
  readonly onCircuitOpen: OnCircuitOpen | undefined
  /** Key of the backend to use; it must be one of the tool's. */
  readonly backend: string | undefined
  /** Receives the reports of the tool. A returned promise applies backpressure to a streaming tool. */
  readonly report: ((report: Report) => void | Promise<void>) | undefined
  readonly effectSink: EffectSink | undefined
  readonly program: ProgramJournal | undefined
  /** The program that makes the call, if any. */
  readonly place?: ProgramNesting | undefined
  /** The recorded result of a dry run, which does not run the tool; null when there is no record. */
  readonly recorded: Recorded | null | undefined
  /** Receives the error of a Result that is not ok, with its original causes unless they may hold secrets. */
  readonly failed: ((failure: ToolError) => void) | undefined
  /** Receives what the tool threw, before the outcome is recorded. */
  readonly onThrow?: ((thrown: Thrown) => void) | undefined
}

/** Ceilings of this executor. A tool or a call may set lower limits, not higher ones. */
export interface PipelineLimits extends Required<CallLimits> {
  /** The default, when neither the tool nor the call sets a timeout. */
  readonly timeoutMs: number
  readonly maxTimeoutMs: number
  /** How long a call waits for an approval. */
  readonly approvalMs: number
  /** Inner calls that one call may make, nested ones included. */
  readonly innerCalls: number
  /** How deeply inner calls may be nested. */
  readonly innerDepth: number
  /** How long an outcome waits for the audit log before it is returned with a warning. */
  readonly auditMs: number
}

/** The dependencies of the pipeline. */
export interface Ports {
  readonly catalog: Catalog
  readonly prepared: PreparedTools
  readonly registry: BackendRegistry
  readonly sources: Sources
  readonly safeguards: Safeguards
  readonly policy: Policy | undefined
  readonly approver: Approver | undefined
  /** Whether a tool of this name exists for an identity; otherwise it is absent in every answer. */
  readonly exists: (identity: Identity, tool: NamedTool) => boolean
  /** Whether an entry is visible to an identity, in discovery and in suggestions of near names. */
  readonly visible: (identity: Identity, entry: CatalogEntry) => boolean
  readonly audit: Audit
  /** Artifacts of callers. */
  readonly artifacts: Artifacts
  /** Whether the files of a call go there when its host stores none. */
  readonly keepsFiles: boolean
  readonly secrets: SecretSource
  readonly connectionSecrets: ConnectionSecrets
  /** Makes the placeholder for hidden parts of arguments in approvals and in the audit log. */
  readonly mark: RedactionMark
  readonly slots: Slots
  readonly events: Events
  /** Tracing is off when absent. */
  readonly tracer: Tracer | undefined
  readonly clock: Clock
  readonly random: () => number
  readonly limits: PipelineLimits
  /** The executor's methods for inner calls, with these ports. */
  readonly inner?: (() => InnerCalls) | undefined
  /** The deadlines of waiting calls. */
  readonly deadlines: RunDeadlines
}

/** Discovery of backend tools, as a lookup needs it. */
export interface Sources {
  /** Resolves when the backend of an id's namespace is discovered; undefined when it already is. */
  pending(id: string): Promise<void> | undefined
  /** The key of a backend of that namespace that is not discovered yet. Starts no discovery. */
  unasked(id: string): string | undefined
  /** Why a tool of a backend may not be called, or why the discovery of the backend failed. */
  refusal(id: string): ToolError | undefined
}

/** One attempt to admit. */
export interface GuardedCall {
  readonly tool: PreparedTool
  readonly backend: Backend
  readonly binding: BackendBinding
  readonly args: JsonObject
  readonly tenant: string
}

/** The signal that ends a wait. Read it only before a wait, because it costs a timer. */
export interface Waiting {
  readonly signal: AbortSignal
}

/** One admitted attempt. Exactly one of its functions is called when it has ended. */
export interface Passage {
  succeed(): void
  /** `until` resolves when the tool has ended, if that is after the call. */
  fail(failure: ToolError, until?: PromiseLike<unknown>): void
}

/**
 * The safeguards of a backend: a rate limit, a concurrency limit, and circuit breakers per tool, backend and tenant.
 * - Errors: RATE_LIMITED or CIRCUIT_OPEN, before the attempt has started.
 */
export interface Safeguards {
  /** Whether this backend has a safeguard. */
  guards(backend: Backend): boolean
  /** Admits one attempt when a slot is free. May ask the processes that share a circuit before a trial. The slot of a call
   * that was cancelled meanwhile is released. */
  enter(call: GuardedCall, waiter: Waiting): Passage | Promise<Passage>
  /** The retry budget shared by the calls of a backend; no limit when absent. */
  budget(backend: Backend): RetryBudget | undefined
}

// The global of this name is a getter, which costs a call 5 % in its two readings.

/** The clock of the pipeline; tests inject their own. */
export interface Clock {
  /** Milliseconds since 1970, for a monotonic time that was just read. */
  now(monotonic: number): number
  /** Monotonic milliseconds. */
  monotonic(): number
  /** Milliseconds since a monotonic time, at which `now` gave `startedAt`. */
  elapsed(startedMonotonic: number, startedAt: number): number
  iso(ms: number): string
}

/** How often the wall clock is read; in between it follows the monotonic clock, which saves one reading per call. */
const followMs = 20

/** A clock over `readWall`. It caches the ISO text of the last millisecond and minute, because a call formats three times. */
export function systemClock(readWall: () => number = Date.now): Clock {
  let wallAt = Number.NEGATIVE_INFINITY
  let wall = 0
  let minute = Number.NaN
  let minuteText = ''
  let lastMs = Number.NaN
  let lastText = ''
  return {
    now(monotonic) {
      if (monotonic - wallAt >= followMs) {
        wallAt = monotonic
        wall = readWall()
      }
      return Math.floor(wall + monotonic - wallAt)
    },
    monotonic: () => performance.now(),
    elapsed: (startedMonotonic) => performance.now() - startedMonotonic,
    iso(ms) {
      if (ms === lastMs) return lastText
      const whole = Math.floor(ms / 60_000)
      if (whole !== minute) {
        minute = whole
        minuteText = new Date(whole * 60_000).toISOString().slice(0, 17)
      }
      const rest = String(100_000 + Math.floor(ms - whole * 60_000))
      lastMs = ms
      lastText = `${minuteText}${rest.slice(1, 3)}.${rest.slice(3)}Z`
      return lastText
    },
  }
}

/** A clock whose times and durations are those of `readWall`; only timeouts are measured. */
export function exactClock(readWall: () => number): Clock {
  return {
    now: () => Math.floor(readWall()),
    monotonic: () => performance.now(),
    elapsed: (_startedMonotonic, startedAt) => readWall() - startedAt,
    iso: (ms) => new Date(ms).toISOString(),
  }
}

export interface BackendName {
  readonly kind: string
  readonly name: string
}

/** The events of an executor, for metrics, logs and consoles. */
export interface EventMap {
  /** A tool is about to start. */
  'call:started': { readonly callId: string; readonly tool: string; readonly identity: Identity }
  /** A tool reported progress, a chunk or a log line; secrets are redacted. */
  'call:reported': { readonly callId: string; readonly tool: string; readonly report: Report }
  /** A call has its outcome. */
  'call:finished': { readonly result: Result; readonly identity: Identity }
  /** A tool threw; secrets are redacted. For logs, because the stack names files of the host. */
  'call:threw': Thrown & {
    readonly callId: string
    /** The call that made this one. */
    readonly parent?: string
    readonly tool: string
    readonly identity: Identity
  }
  /** A tool ended after its call; the outcome does not change. */
  'call:late': { readonly callId: string; readonly tool: string; readonly ended: 'returned' | 'threw' }
  /** A backend did not start a call, so the call fails over to the next one. */
  'call:failover': {
    readonly callId: string
    readonly tool: string
    readonly from: BackendName
    readonly to: BackendName
    readonly failure: ErrorInfo
  }
  /** A circuit of a tenant, or the shared one, opened, is on trial, or closed. Its name is `tool @ backend`. */
  'circuit:changed': TenantCircuitEvent
  /** A backend went up or down, or reported a message. */
  'backend:reported': BackendReport & { readonly backend: string }
  /** A tool was put into quarantine. */
  'tool:quarantined': { readonly id: string; readonly backend: string; readonly reason: 'changed' | 'renamed' }
  /** A connection was made or refused. */
  'egress:attempted': EgressEvent
  /** A tool was registered, updated or unregistered. */
  'catalog:changed': CatalogChange
}

export type EventName = keyof EventMap
export type Listener<Name extends EventName> = (event: EventMap[Name]) => void

/**
 * Typed subscriptions. Listeners run synchronously, in order. One that throws is reported as a process warning and does
 * not affect the call.
 */
export interface Events {
  /** Returns the function that ends the subscription. */
  on<Name extends EventName>(name: Name, listener: Listener<Name>): () => void
  emit<Name extends EventName>(name: Name, event: EventMap[Name]): void
  /** Whether there is a listener, to avoid building an event that has none. */
  has(name: EventName): boolean
}

const names: ReadonlySet<string> = new Set<EventName>([
  'call:started',
  'call:reported',
  'call:finished',
  'call:threw',
  'call:late',
  'call:failover',
  'circuit:changed',
  'backend:reported',
  'tool:quarantined',
  'egress:attempted',
  'catalog:changed',
])

export function createEvents(): Events {
  const listeners = new Map<EventName, ((event: never) => void)[]>()
  return {
    on(name, listener) {
      if (!names.has(name))
        throw new TypeError(`There is no event ${String(name)}; the events are ${[...names].join(', ')}.`)
      listeners.set(name, [...(listeners.get(name) ?? []), listener])
      return () => {
        const left = (listeners.get(name) ?? []).filter((other) => other !== listener)
        if (left.length === 0) listeners.delete(name)
        else listeners.set(name, left)
      }
    },
    emit(name, event) {
      for (const listener of listeners.get(name) ?? []) {
        try {
          listener(event as never)
        } catch (error) {
          process.emitWarning(`A listener of ${name} threw: ${error instanceof Error ? error.name : typeof error}`)
        }
      }
    },
    has: (name) => listeners.size > 0 && listeners.has(name),
  }
}

/**
 * Makes ids in the format of a UUID at the cost of a counter: a random prefix for this executor, then a count.
 * They are unique but guessable; a host that needs unguessable ids passes its own.
 */
export function createCallIds(random: () => number = Math.random): () => string {
  const digits = (count: number): string => {
    const value = Math.floor(random() * 16 ** count)
    return value.toString(16).padStart(count, '0')
  }
  const front = `${digits(8)}-${digits(4)}-4${digits(3)}-8${digits(3)}-`
  const last = Array.from({ length: block }, (_, number) => number.toString(16).padStart(3, '0'))
  let count = 0
  let start = front
  return () => {
    count += 1
    const low = count % block
    if (low === 0 || start === front)
      start =
        front +
        Math.floor(count / block)
          .toString(16)
          .padStart(9, '0')
    return start + (last[low] ?? '')
  }
}

/** Ids are counted in blocks, so that most cost one string concatenation. */
const block = 4_096
