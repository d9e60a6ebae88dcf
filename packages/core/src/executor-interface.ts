import type {
  ChainResult,
  ChainStep,
  Identity,
  JsonObject,
  OnCircuitOpen,
  ProgramLanguage,
  ProgramLimits,
  Report,
  Result,
  RetryRule,
  StreamEvent,
  ToolError,
  Warning,
} from '@gantry/contract'
import type { Audit } from './audits/audit.ts'
import type { Backend, FoundTool, Health } from './backends/backend.ts'
import type { EffectSink, ProgramJournal } from './backends/program-journal.ts'
import type { Catalog, CatalogEntry, EntryFilter, ListQuery, Page } from './catalogs/catalog.ts'
import type { DescribeOptions, ToolDoc } from './catalogs/describe.ts'
import type { ChainOptions } from './chain/chain.ts'
import type { Egress } from './egress/egress.ts'
import type { CheckedCall, Explanation, RuntimeExplanation } from './pipeline/check.ts'
import type { Thrown } from './pipeline/failure.ts'
import type { Events } from './pipeline/ports.ts'
import type { Reconciled } from './pipeline/reconcile.ts'
import type { Recorded } from './pipeline/record.ts'
import type { BackendInfo } from './pipeline/resolve.ts'
import type { Policy } from './policies/policy.ts'
import type { RuntimeControl } from './runtimes/runtimes.ts'
import type { CircuitControl } from './safeguards.ts'
import type { ApproveOptions, QuarantinedTool, SourceFault } from './tool-discovery.ts'
import type { ToolVisibility } from './tool-visibility.ts'
import type { DefinedTool } from './tools/tool.ts'

export interface FindOptions extends EntryFilter {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
  readonly identity?: Identity | undefined
  readonly signal?: AbortSignal | undefined
}

/** Options of a program over tools. */
export interface CodeOptions extends RunOptions {
  /** `typescript` when absent. */
  readonly language?: ProgramLanguage | undefined
  readonly limits?: ProgramLimits | undefined
  /** Checks the program against the tools that it calls before it runs. */
  readonly check?: boolean | undefined
  /** Hands the program to an engine of the option `engines`; it runs in this process when absent. */
  readonly engine?: string | undefined
}

/**
 * Runs tools. Every call, from whichever API, passes the same pipeline.
 * - Concurrency: any number of calls at once.
 * - Errors: `run`, `stream` and `chain` never throw for the outcome of a call; they return a Result. Discovery and
 *   registration throw ToolError.
 * - Ownership: `close` ends running calls and closes the backends. A closed executor refuses every call.
 */
export interface Executor {
  /** Always resolves with a Result, whatever the outcome. */
  run(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** Like `run`, but throws a ToolError with the Result unless the status is ok. */
  runOrThrow(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** Events of one call as they happen; stopping the loop cancels the call. */
  stream(tool: string, args?: unknown, options?: RunOptions): AsyncGenerator<StreamEvent, void>
  /**
   * Whether a call would be allowed now, without running it or requesting approval; for hosts that make the call later.
   * Rejects with the ToolError that would end it.
   */
  check(tool: string, args?: unknown, options?: RunOptions): Promise<CheckedCall>
  /**
   * The decision on a call of an identity, with its reasons, without running the call. `asker` is the identity that
   * receives the explanation, if it is another one: a tool that is hidden from it is reported as absent. Rejects when
   * no decision can be made.
   */
  explain(
    tool: string,
    args?: unknown,
    options?: {
      readonly identity?: Identity | undefined
      readonly asker?: Identity | undefined
      readonly signal?: AbortSignal | undefined
    },
  ): Promise<Explanation>
  /**
   * Which runtime would run the program of a call now, and why each other one would not, without running it. Rejects with
   * the error that would end the call before its backend, and with INPUT_INVALID for a tool that runs in no sandbox.
   */
  explainRuntime(
    tool: string,
    args?: unknown,
    options?: Pick<RunOptions, 'identity' | 'backend' | 'signal'>,
  ): Promise<RuntimeExplanation>
  /** Checks a chain without running it: resolves when it is valid, rejects with CHAIN_INVALID. */
  checkChain(steps: unknown, options?: Pick<ChainOptions, 'input' | 'limits'>): Promise<void>
  /**
   * Looks up the outcome of an earlier call of a `reconcilable` tool by its idempotency key; see `lookup` of a tool.
   * Never rejects: a failure leaves the outcome unknown.
   */
  reconcile(tool: string, key: string, options?: Omit<RunOptions, 'idempotencyKey'>): Promise<Reconciled>
  chain(
    steps: readonly ChainStep[],
    options?: ChainOptions & {
      readonly identity?: Identity | undefined
      /** Hands the chain to an engine of the option `engines`; it runs in this process when absent. */
      readonly engine?: string | undefined
    },
  ): Promise<ChainResult>
  /**
   * Runs a program over tools, as the tool `code:program`. The output is the return value of the program, and
   * `Result.program` has its printed output and its calls. Works even if that tool is not listed.
   */
  code(code: string, options?: CodeOptions): Promise<Result>
  /** Visible tools that match the query, best first. */
  search(query: string, options?: FindOptions): Promise<Page<FoundTool> & { readonly warning?: Warning }>
  /** The description of one tool, at one of four levels. */
  describe(tool: string, options?: DescribeOptions & { readonly identity?: Identity | undefined }): Promise<ToolDoc>
  /**
   * TypeScript declarations of the visible tools that match the query, as a model needs them to write a program over
   * tools. `describe` at the level `types` returns the declaration of one tool.
   */
  declarations(query: string, options?: FindOptions): Promise<string>
  /** Lists visible tools by id; its methods register and remove tools at run time. */
  readonly tools: ToolControl
  /**
   * The entry that a call of the caller would reach, without discovery. Throws the same TOOL_NOT_FOUND for a tool that
   * does not exist and for one that is absent for the caller.
   */
  find(tool: string, options?: { readonly identity?: Identity | undefined }): CatalogEntry
  /**
   * Why this executor cannot run a tool with the definition of a digest: TOOL_NOT_FOUND or CATALOG_STALE. Undefined when
   * it has that definition, even if the caller may not call it. For hosts that route calls to executors.
   */
  missing(tool: string, schemaDigest?: string): Promise<ToolError | undefined>
  /**
   * The visibility of a tool for the caller, by its id with or without a version. For hosts that store data of tools, such
   * as calls, and show it to other callers.
   */
  visibility(tool: string, options?: { readonly identity?: Identity | undefined }): ToolVisibility
  /** Hash of the tools that are visible to a caller; it changes only with them. */
  hashFor(identity?: Identity): string
  /**
   * The same executor with an additional policy, which can only restrict further, or with another audit log. Tools,
   * backends, circuits and slots are shared, and closing one closes all. Running calls keep their policy and audit log.
   */
  under(parts: { readonly policy?: Policy | undefined; readonly audit?: Audit | undefined }): Executor
  register(tool: DefinedTool): CatalogEntry
  /** Replaces a version, or adds it. Calls that already run are not touched. */
  update(tool: DefinedTool): CatalogEntry
  unregister(id: string): boolean
  /** Discovers the tools of every backend, instead of at the first search or call; resolves with the backends that failed. */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly SourceFault[]>
  readonly catalog: Catalog
  readonly backends: BackendControl
  readonly quarantine: QuarantineControl
  readonly circuits: CircuitControl
  /** The runtimes for programs. */
  readonly runtimes: RuntimeControl
  /** The egress guard; its rules can be changed at run time. */
  readonly egress: Egress
  readonly on: Events['on']
  /** Refuses new calls, waits `graceMs` (5 s) for running ones, then cancels them and closes the backends. */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** Lists, registers and removes tools. Running calls are not affected. */
export interface ToolControl extends ListTools {
  /** Like the option `tools` of an executor, with the same checks. Throws TOOL_INVALID without a change. */
  register(tool: DefinedTool): CatalogEntry
  /** Replaces a version, or adds it. */
  update(tool: DefinedTool): CatalogEntry
  unregister(id: string): boolean
}

export type ListTools = (query?: ListQuery & { readonly identity?: Identity | undefined }) => Page<CatalogEntry>

/** Registers, disables, enables and removes backends. Running calls continue. */
export interface BackendControl {
  /**
   * Registers a backend, like the option `backends` of an executor, with the same checks, and starts its discovery, which
   * `ready` awaits. The executor closes it. Throws CONFIG_INVALID for an invalid backend or a registered key.
   */
  register(backend: Backend): BackendInfo
  /**
   * Removes a backend by its name or key. Its tools leave the catalog at once, and calls of other tools bound to it end
   * with NO_BACKEND. Running calls have `graceMs` (5 s) to end, then are cancelled; then the backend is closed.
   * Rejects with NO_BACKEND for an unknown backend, CONFIG_INVALID for a built-in one.
   */
  remove(name: string, options?: { readonly graceMs?: number | undefined }): Promise<void>
  list(): readonly BackendInfo[]
  enable(key: string): void
  disable(key: string): void
  /** Checks the health of every backend, or of one. Never rejects for an error of a backend. */
  health(options?: {
    readonly key?: string | undefined
    readonly signal?: AbortSignal | undefined
  }): Promise<readonly (BackendInfo & Health)[]>
}

/** Tools that may not be called, because their definition is not the approved one. */
export interface QuarantineControl {
  list(): readonly QuarantinedTool[]
  /** Trusts the current definition of a tool; refused when the given hash is of another definition. */
  approve(id: string, options?: ApproveOptions): Promise<void>
}

/** Options of one call, over the executor's defaults. */
export interface RunOptions {
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number | undefined
  readonly idempotencyKey?: string | undefined
  /** Fence of a durable call's lease; the tool sees it. */
  readonly fence?: number | undefined
  /** The caller; established by the host program, never read from arguments. */
  readonly identity?: Identity | undefined
  /** Digest of the definition that the caller saw; CATALOG_STALE if the current one differs. */
  readonly schemaDigest?: string | undefined
  /** Where the call comes from, according to the gateway; the tool sees it, and no decision depends on it. */
  readonly origin?: JsonObject | undefined
  /** W3C traceparent of the call; an invalid one is ignored. */
  readonly traceparent?: string | undefined
  readonly retry?: RetryRule | undefined
  /** Whether the call waits, within its timeout, or fails while its circuit is open; its tool decides when absent. */
  readonly onCircuitOpen?: OnCircuitOpen | undefined
  readonly callId?: string | undefined
  /** Key of the tool's backend to use: `http:github`. The first usable one when absent. */
  readonly backend?: string | undefined
  /** Receives the reports of the tool. A returned promise applies backpressure to a streaming tool. */
  readonly report?: ((report: Report) => void | Promise<void>) | undefined
  /** Receives what the tool threw, with its stack, before the outcome is recorded. Must not throw. */
  readonly onThrow?: ((thrown: Thrown) => void) | undefined
  /** Receives the effects of the tool while it runs. */
  readonly effectSink?: EffectSink | undefined
  /** Journals the outcomes of a program's inner calls, so that a later attempt can resume it; other tools ignore it. */
  readonly program?: ProgramJournal | undefined
  /**
   * Makes the call a dry run: the recorded result replaces the tool, and null means that there is no record. No backend
   * is reached, no secret fetched, no approval requested, and nothing audited. A value of undefined is refused, so that a
   * missing record cannot become a real call. A program with its journal in `program` is replayed in a sandbox, and the
   * journal must perform no new request.
   */
  readonly recorded?: Recorded | null
}
