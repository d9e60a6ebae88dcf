import type { Readable } from 'node:stream'
import type {
  ArtifactRef,
  CallView,
  ChainResult,
  DeadLetter,
  ErrorInfo,
  HealthView,
  Identity,
  Paged,
  Replay,
  Result,
  StreamEvent,
  WorkerView,
} from '@gantry/contract'
import type { Executor } from '@gantry/core'
import type { CircuitSummary } from '@gantry/core/internal/resilience/circuit-state'
import type { RuntimeInfo } from '@gantry/sandbox'
import type { PolicyControl } from '../admission/policy/policy-control.ts'
import type { Readiness } from '../observe/readiness.ts'
import type { ApprovalRecords } from '../storage/approvals/approvals.ts'
import type { AuditControl } from '../storage/audit/audit-control.ts'
import type { CallInput } from '../storage/calls/call-store.ts'
import type { PageQuery } from '../storage/page-cursor.ts'
import type { KeyControl } from './authentication/key-control.ts'

/**
 * The functions of the service for routes and the MCP server. Everything belongs to the identity's tenant; what belongs
 * to another tenant is NOT_FOUND.
 * - Errors: every method rejects with ToolError.
 */
export interface Service {
  /**
   * Admits a call, stores it durably and resolves with its id; a repeat of the same key resolves with the first one.
   * With `waits` the caller must not reveal the call before `wait` has resolved, because it may be durable only then.
   * `hold` takes the slot of the waiting caller; what it throws refuses the call as any limit does, and a repeat is
   * answered all the same.
   */
  submit(
    input: CallInput,
    identity: Identity,
    how?: { readonly waits?: boolean; readonly hold?: () => void },
  ): Promise<{ readonly callId: string; readonly repeated: boolean }>
  /**
   * The outcome once there is one; undefined when there is none after `waitMs`, or when the signal aborts: then the
   * call is durable, or this rejects with SERVICE_UNAVAILABLE because it was lost in a crash of the database.
   */
  wait(
    callId: string,
    identity: Identity,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<Result | ChainResult | undefined>
  /** With `args`, the arguments without secrets, for the principal of the call and for operators. */
  call(callId: string, identity: Identity, how?: { readonly args?: boolean }): Promise<CallView>
  calls(
    query: PageQuery & { readonly state?: string; readonly tool?: string },
    identity: Identity,
  ): Promise<Paged<CallView>>
  /** Events after the given id, as they arrive, up to the end of the call. Rejects at once with NOT_FOUND. */
  events(callId: string, afterId: number, identity: Identity, signal: AbortSignal): Promise<AsyncIterable<StreamEvent>>
  cancel(callId: string, identity: Identity): Promise<CallView>
  /** Runs an ended call again with its record in place of its tools; see `replay`. */
  replay(callId: string, identity: Identity, signal: AbortSignal): Promise<Replay>
  /** Approvals; a caller who may not decide is DENIED. */
  readonly approvals: Pick<ApprovalRecords, 'list' | 'get' | 'decide'>
  /**
   * Dead letters of tools that are visible to the identity; operators see those of all such principals, with their
   * arguments.
   */
  deadLetters(query: PageQuery, identity: Identity): Promise<Paged<DeadLetter>>
  deadLetter(id: string, identity: Identity): Promise<DeadLetter>
  /** Submits the call again, as its first caller, under a new id; a second redrive resolves with the same new call. */
  redrive(id: string, identity: Identity): Promise<{ readonly callId: string }>
  discard(id: string, identity: Identity): Promise<void>
  /** A URL of the content without this service, for a short time; else its URL here. */
  artifactUrl(
    id: string,
    identity: Identity,
    signal: AbortSignal,
  ): Promise<{ readonly url: string; readonly signed: boolean; readonly expiresMs?: number }>
  /**
   * The content from `start` up to but excluding `end`; a range beyond the content is truncated, to nothing if need be.
   */
  artifact(
    id: string,
    range: { readonly start: number; readonly end?: number } | undefined,
    identity: Identity,
    signal: AbortSignal,
  ): Promise<{
    readonly artifact: ArtifactRef
    readonly start: number
    readonly end: number
    readonly content: Readable
  }>
  readonly keys: KeyControl
  readonly policy: PolicyControl
  readonly audit: AuditControl
  workers(): Promise<readonly WorkerView[]>
  /** The health of this process, without the database; outcomes of other tenants only with gantry:tenants. */
  health(identity: Identity): Promise<HealthView>
  runtimes(): Promise<readonly RuntimeInfo[]>
  /**
   * The circuits of tools that are visible to the identity, with the state for its tenant, or for every tenant with
   * `gantry:tenants`.
   */
  circuits(identity: Identity): readonly CircuitSummary[]
  /**
   * Closes a circuit, with an entry in the audit log: for the named tenant, or for all tenants, or for the identity's
   * own tenant without `gantry:tenants`. Resolves with whether it was open; NOT_FOUND for a circuit that is hidden from
   * the identity.
   */
  resetCircuit(key: string, tenant: string | undefined, identity: Identity): Promise<boolean>
  /** The executor of the current configuration, for discovery. */
  readonly executor: Pick<Executor, 'search' | 'describe' | 'tools' | 'find' | 'hashFor' | 'ready' | 'catalog'>
  ready(): Promise<Readiness>
  /**
   * Metrics in the text format of Prometheus; `shared` names neither tenants nor their tools once there are several.
   */
  metrics(scope?: 'whole' | 'shared'): Promise<{ readonly type: string; readonly text: string }>
}

/** The body of an error response. */
export interface ErrorBody {
  readonly error: ErrorInfo
}
