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
import type { CircuitSummary } from '@gantry/core/internal/resilience/circuit-summary'
import type { RuntimeInfo } from '@gantry/sandbox'
import type { PolicyControl } from '../admission/policy/policy-control.ts'
import type { Readiness } from '../observe/readiness.ts'
import type { ApprovalRecords } from '../storage/approvals/approvals.ts'
import type { AuditControl } from '../storage/audit/audit-control.ts'
import type { CallInput, PageQuery } from '../storage/call-input.ts'
import type { KeyControl } from './authentication/key-control.ts'

/**
 * What the doors of the service (HTTP now, MCP later) can ask of it. Everything is of the identity's tenant; what
 * belongs to another one is NOT_FOUND.
 * - Errors: every method rejects with ToolError.
 */
export interface Service {
  /**
   * Checks a call, keeps it durably and answers where it is; a repeat of the same key answers the first one. One that
   * `waits` tells its caller nothing of the call before `wait` has answered, because the call may last only then.
   * `hold` takes the place where the caller waits; what it throws refuses the call as any limit does, and a repeat is
   * answered all the same.
   */
  submit(
    input: CallInput,
    identity: Identity,
    how?: { readonly waits?: boolean; readonly hold?: () => void },
  ): Promise<{ readonly callId: string; readonly repeated: boolean }>
  /**
   * The outcome once there is one; undefined when there is none after `waitMs`, or when the signal aborts: then the call
   * is kept durably, or this rejects with SERVICE_UNAVAILABLE because it was lost with a database that crashed.
   */
  wait(
    callId: string,
    identity: Identity,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<Result | ChainResult | undefined>
  call(callId: string, identity: Identity): Promise<CallView>
  calls(
    query: PageQuery & { readonly state?: string; readonly tool?: string },
    identity: Identity,
  ): Promise<Paged<CallView>>
  /** Events after the given id, as they come, up to the end of the call. Rejects at once with NOT_FOUND. */
  events(callId: string, afterId: number, identity: Identity, signal: AbortSignal): Promise<AsyncIterable<StreamEvent>>
  cancel(callId: string, identity: Identity): Promise<CallView>
  /** Runs a call that has ended again with what is on record in the place of its tools; see `replay`. */
  replay(callId: string, identity: Identity, signal: AbortSignal): Promise<Replay>
  /** What persons are asked; whoever may not decide is DENIED. */
  readonly approvals: Pick<ApprovalRecords, 'list' | 'get' | 'decide'>
  /** Of tools that the identity is shown; who operates sees those of all that are there for it, and what was asked for. */
  deadLetters(query: PageQuery, identity: Identity): Promise<Paged<DeadLetter>>
  deadLetter(id: string, identity: Identity): Promise<DeadLetter>
  /** Hands the call in again, as its first caller, under a new id; a second redrive answers the same new call. */
  redrive(id: string, identity: Identity): Promise<{ readonly callId: string }>
  discard(id: string, identity: Identity): Promise<void>
  /** Where the content can be had without this service, for a short time; else its address here. */
  artifactUrl(
    id: string,
    identity: Identity,
    signal: AbortSignal,
  ): Promise<{ readonly url: string; readonly signed: boolean; readonly expiresMs?: number }>
  /** The content from `start` up to but without `end`; what is beyond the content is left out, all of it if need be. */
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
  /** Of this process, without the database; outcomes of other tenants only for those who hold gantry:tenants. */
  health(identity: Identity): Promise<HealthView>
  runtimes(): Promise<readonly RuntimeInfo[]>
  /** Those of tools that are there for the identity, with what its tenant sees of them, or every tenant to `gantry:tenants`. */
  circuits(identity: Identity): readonly CircuitSummary[]
  /**
   * Closes a circuit, on the audit record: of the named tenant, or of all tenants, or of the identity's own tenant when it
   * does not hold `gantry:tenants`. Whether it was not closed; NOT_FOUND for one that the identity does not see.
   */
  resetCircuit(key: string, tenant: string | undefined, identity: Identity): Promise<boolean>
  /** The executor of the present configuration, for discovery. */
  readonly executor: Pick<Executor, 'search' | 'describe' | 'tools' | 'find' | 'hashFor' | 'ready' | 'catalog'>
  ready(): Promise<Readiness>
  /** Metrics in Prometheus text form; `shared` names neither tenants nor their tools once there are several. */
  metrics(scope?: 'whole' | 'shared'): Promise<{ readonly type: string; readonly text: string }>
}

/** An error as every door shows it. */
export interface ErrorBody {
  readonly error: ErrorInfo
}
