import type {
  ChainResult,
  ChainStep,
  Identity,
  ProgramLanguage,
  ProgramLimits,
  Result,
  StreamEvent,
  ToolError,
  Warning,
} from '@gantry/contract'
import type { Audit } from './audits/audit.ts'
import type { Backend, Health } from './backends/backend.ts'
import type { FoundTool } from './backends/inner-calls.ts'
import type { Catalog, CatalogEntry, EntryFilter, ListQuery, Page } from './catalogs/catalog.ts'
import type { DescribeOptions, ToolDoc } from './catalogs/describe.ts'
import type { ChainOptions } from './chain/chain.ts'
import type { ApproveOptions, QuarantinedTool } from './discovered-tools.ts'
import type { Egress } from './egress/egress.ts'
import type { CheckedCall, Explanation } from './pipeline/check.ts'
import type { Events } from './pipeline/events.ts'
import type { Reconciled } from './pipeline/reconcile.ts'
import type { BackendInfo } from './pipeline/registry.ts'
import type { Policy } from './policies/policy.ts'
import type { RunOptions } from './run-options.ts'
import type { RuntimeControl } from './runtimes/runtimes.ts'
import type { CircuitControl } from './safeguards.ts'
import type { SourceFault } from './tool-discovery.ts'
import type { ToolVisibility } from './tool-visibility.ts'
import type { DefinedTool } from './tools/tool.ts'

export interface FindOptions extends EntryFilter {
  readonly limit?: number | undefined
  readonly cursor?: string | undefined
  readonly identity?: Identity | undefined
  readonly signal?: AbortSignal | undefined
}

/** How a program over tools is run. */
export interface CodeOptions extends RunOptions {
  /** `typescript` when absent. */
  readonly language?: ProgramLanguage | undefined
  readonly limits?: ProgramLimits | undefined
  /** Checks the program against the tools that it calls before anything of it runs. */
  readonly check?: boolean | undefined
}

/**
 * Runs tools. Every call, from whichever door, passes the same pipeline.
 * - Concurrency: any number of calls at once.
 * - Errors: `run`, `stream` and `chain` never throw for what a call does; they answer with a Result. Discovery and
 *   registration throw ToolError.
 * - Ownership: `close` ends what runs and closes the backends; after it every call is refused.
 */
export interface Executor {
  /** Always a Result, whatever the outcome. */
  run(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** The same, for those who prefer exceptions: throws ToolError with the Result on it unless the status is ok. */
  runOrThrow(tool: string, args?: unknown, options?: RunOptions): Promise<Result>
  /** Events of one call as they happen; stopping the loop cancels the call. */
  stream(tool: string, args?: unknown, options?: RunOptions): AsyncGenerator<StreamEvent, void>
  /**
   * Whether a call would be let through as things stand, without running it and without asking anybody to approve it;
   * for those who keep a call to make it later. Rejects with the ToolError that would have ended it.
   */
  check(tool: string, args?: unknown, options?: RunOptions): Promise<CheckedCall>
  /**
   * What would be decided on a call of an identity, and why, without running it. `asker` is who hears it, when it is
   * somebody else: only of tools that are there for him is anything told. Rejects when no decision can be made.
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
  /** Checks the shape of a chain without running it: resolves when it could begin, rejects with CHAIN_INVALID. */
  checkChain(steps: unknown, options?: Pick<ChainOptions, 'input' | 'limits'>): Promise<void>
  /**
   * Asks a tool of the effect `reconcilable` what came of an earlier run under an idempotency key, for those who lost
   * sight of it; see `lookup` of a tool. Never rejects: what goes wrong leaves the outcome unknown.
   */
  reconcile(tool: string, key: string, options?: Omit<RunOptions, 'idempotencyKey'>): Promise<Reconciled>
  chain(
    steps: readonly ChainStep[],
    options?: ChainOptions & { readonly identity?: Identity | undefined },
  ): Promise<ChainResult>
  /**
   * Runs a program over tools, which is the tool `code:program`: its output is what the program returned, and
   * `Result.program` tells what it printed and which calls it made. Works also where that tool is not listed.
   */
  code(code: string, options?: CodeOptions): Promise<Result>
  /** Tools that fit the words, best first, of those the caller may use. */
  search(query: string, options?: FindOptions): Promise<Page<FoundTool> & { readonly warning?: Warning }>
  /** What there is to know of one tool, at one of four levels. */
  describe(tool: string, options?: DescribeOptions & { readonly identity?: Identity | undefined }): Promise<ToolDoc>
  /**
   * TypeScript declarations, as programs over tools call them, of the tools that fit the words: what a model needs to see
   * to write a program, and no more. `describe` at the level `types` gives that of one tool.
   */
  declarations(query: string, options?: FindOptions): Promise<string>
  /** Tools by id, of those the caller may use; and what adds and removes them while calls run. */
  readonly tools: ToolControl
  /**
   * The entry that a call of the caller would reach, as far as the catalog knows it already. Throws TOOL_NOT_FOUND, alike
   * for a tool that is not there and for one that is not there for him.
   */
  find(tool: string, options?: { readonly identity?: Identity | undefined }): CatalogEntry
  /**
   * What keeps this executor from running a tool in the definition that a digest is of, for those who hand calls over to
   * executors that can: TOOL_NOT_FOUND or CATALOG_STALE. Undefined when it has the tool, also where the caller may not call it.
   */
  missing(tool: string, schemaDigest?: string): Promise<ToolError | undefined>
  /**
   * What a tool is to the caller, by its id, with or without a version; for those who keep something of tools, such as
   * calls, and show it to others.
   */
  visibility(tool: string, options?: { readonly identity?: Identity | undefined }): ToolVisibility
  /** Hash of what a caller sees of the catalog: the same as long as that does not change. */
  hashFor(identity?: Identity): string
  /**
   * The same executor under a further policy, which can only narrow its own, or with its calls on another record. Tools,
   * backends, circuits and slots are shared, and whoever closes one closes all. Calls that run keep what they began with.
   */
  under(parts: { readonly policy?: Policy | undefined; readonly audit?: Audit | undefined }): Executor
  register(tool: DefinedTool): CatalogEntry
  /** Replaces a version, or adds it. Calls that already run are not touched. */
  update(tool: DefinedTool): CatalogEntry
  unregister(id: string): boolean
  /** Asks every backend for the tools it brings, which else the first search or call does; gives those that failed. */
  ready(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly SourceFault[]>
  readonly catalog: Catalog
  readonly backends: BackendControl
  readonly quarantine: QuarantineControl
  readonly circuits: CircuitControl
  /** Which sandboxes there are for programs. */
  readonly runtimes: RuntimeControl
  /** The guarded way out; its rules may be changed while calls run. */
  readonly egress: Egress
  readonly on: Events['on']
  /** Takes no more calls, lets running ones end for `graceMs` (5 s), then cancels them and closes the backends. */
  close(options?: { readonly graceMs?: number }): Promise<void>
}

/** Lists tools, and changes which there are. Calls that already run are not touched. */
export interface ToolControl extends ListTools {
  /** As the option `tools` of an executor, with the same checks: TOOL_INVALID, and then nothing changes. */
  register(tool: DefinedTool): CatalogEntry
  /** Replaces a version, or adds it. */
  update(tool: DefinedTool): CatalogEntry
  unregister(id: string): boolean
}

export type ListTools = (query?: ListQuery & { readonly identity?: Identity | undefined }) => Page<CatalogEntry>

/** Adds backends, takes them out of service, puts them back and removes them; calls that already run there go on. */
export interface BackendControl {
  /**
   * Adds a backend, as the option `backends` of an executor does, with the same checks, and asks it for its tools: `ready`
   * waits for them. The executor closes it. Throws CONFIG_INVALID for what is no backend, or one of a key that is taken.
   */
  register(backend: Backend): BackendInfo
  /**
   * Removes a backend by its name or key. Its tools leave the catalog at once, and other tools that are bound to it end
   * with NO_BACKEND; calls that run there may end within `graceMs` (5 s), are then cancelled, and then it is closed.
   * Rejects with NO_BACKEND for one that is not there, CONFIG_INVALID for one that every executor has.
   */
  remove(name: string, options?: { readonly graceMs?: number | undefined }): Promise<void>
  list(): readonly BackendInfo[]
  enable(key: string): void
  disable(key: string): void
  /** Asks every backend, or one; never rejects for what a backend does. */
  health(options?: {
    readonly key?: string | undefined
    readonly signal?: AbortSignal | undefined
  }): Promise<readonly (BackendInfo & Health)[]>
}

/** Tools that may not be called, because they are not what was approved. */
export interface QuarantineControl {
  list(): readonly QuarantinedTool[]
  /** Trusts a tool as it is now, or not at all when it is not what the given hash is of. */
  approve(id: string, options?: ApproveOptions): Promise<void>
}
