import type {
  ArtifactRef,
  BackendBinding,
  ChainResult,
  ChainStep,
  Identity,
  Isolation,
  Json,
  JsonObject,
  LogLevel,
  ProgramReport,
  Result,
  Tool,
  ToolError,
  Usage,
  Warning,
} from '@gantry/contract'
import type { Artifacts } from '../artifacts/artifact.ts'
import type { Egress } from '../egress/egress.ts'
import type { RuntimeChoice } from '../runtimes/runtimes.ts'
import type { Span } from '../tracing/tracer.ts'
import type { EffectSink, InnerNames, ProgramJournal } from './program-journal.ts'

/** A progress report as an object instead of positional arguments. */
export interface ProgressReport {
  readonly progress: number
  readonly total?: number
  readonly message?: string
}

/**
 * The context of a call for its tool. Its functions may be detached and passed on.
 * After the call has ended, reports are ignored, and `signal` is aborted if it was ever read.
 */
export interface ToolContext {
  readonly callId: string
  /** Id of the running tool, with its version. */
  readonly tool: string
  readonly identity: Identity
  /** The same for all attempts; pass it downstream. The call id when the caller gave none. */
  readonly idempotencyKey: string
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Increases with every lease of a durable call: a store that keeps the highest fence can reject a stale worker. */
  readonly fence: number | undefined
  /** W3C `traceparent` of the call; pass it downstream. Undefined when the call is not traced. */
  readonly traceparent?: string | undefined
  /**
   * Metadata from the gateway of the caller: display names, message ids, the context of a room. It is untrusted, like the
   * arguments, and does not identify the caller: `identity` does. Backends do not forward it. Undefined when the call has
   * none.
   */
  readonly origin?: JsonObject | undefined
  /** Aborted on cancel, on timeout and when the caller disconnects; the reason tells which. */
  readonly signal: AbortSignal
  /** Only the secrets that the tool declares. */
  readonly secrets: { readonly [name: string]: string }
  progress(progress: number | ProgressReport, total?: number, message?: string): void
  log(message: string, data?: Json): void
  log(level: LogLevel, message: string, data?: Json): void
  /**
   * Sends a message to the caller while the tool runs. It is sent at once, numbered within the call, and becomes an effect
   * of the result once it is durable; a failed send is a warning on the result. A sent message is not undone by the
   * outcome of the call. Throws OUTPUT_INVALID for a value that is not JSON, LIMIT_EXCEEDED over a limit.
   */
  send(message: Json): void
  /**
   * Stores a file for the caller, as an artifact and an effect of the result. The content is copied. Rejects with
   * STORE_UNAVAILABLE when the store fails or the host stores no files, LIMIT_EXCEEDED for too many or too large files.
   */
  attach(file: AttachedFile): Promise<ArtifactRef>
  /**
   * Offers a tool to the caller, as an effect of the result; it grants no right to call it. Throws OUTPUT_INVALID for a
   * tool that is hidden from the caller, LIMIT_EXCEEDED for too many.
   */
  inject(tool: string): void
  /**
   * Calls another tool as the caller of this one; resolves with a Result for every outcome. The inner call passes the same
   * pipeline and policy, is in the trace and has this call as its parent in the audit log. It ends with this call, and it
   * is not journaled for a retry: it is part of the effect of this call. A call that needs approval is APPROVAL_REQUIRED
   * where the host approves asynchronously. Rejects with LIMIT_EXCEEDED past `limits.innerCalls` or `limits.innerDepth`,
   * which nested calls share, and with CANCELLED after this call has ended.
   */
  run(tool: string, args?: unknown, options?: ToolCallOptions): Promise<Result>
  /** Runs a chain in the same way; each of its calls counts towards the limits. */
  chain(steps: readonly ChainStep[], options?: ToolChainOptions): Promise<ChainResult>
  /** Searches the tools that the caller may use, best match first. */
  search(query: string, options?: InnerSearchOptions): Promise<FoundTools>
}

/** Options of an inner call. */
export interface ToolCallOptions {
  readonly timeoutMs?: number | undefined
  /** Derived from the key of the outer call and the number of the inner call when absent. */
  readonly idempotencyKey?: string | undefined
  /** Cancels the inner call before the outer call ends. */
  readonly signal?: AbortSignal | undefined
}

export interface ToolChainOptions {
  readonly input?: Json | undefined
  readonly signal?: AbortSignal | undefined
}

export interface InnerSearchOptions {
  readonly limit?: number | undefined
  readonly signal?: AbortSignal | undefined
}

/** A file that a tool attaches for its caller. */
export interface AttachedFile {
  /** The file name; folders and invisible characters are removed from it. */
  readonly name: string
  readonly content: string | Uint8Array
  /** When absent, `text/plain` for a text and `application/octet-stream` for bytes. */
  readonly mimeType?: string
}

/** The context of a call for its backend, with more than the tool receives. */
export interface BackendContext extends ToolContext {
  /**
   * The value of `secret:name` for this caller; from now on it is redacted from everything that leaves the call.
   * Fetch it at the last moment and do not keep it. Rejects with SECRET_UNAVAILABLE.
   */
  secret(name: string): Promise<string>
  /** Redacts a text derived from secrets, such as basic credentials, from everything that leaves the call. */
  conceal(value: string): void
  /** The least isolation that the policy requires for a program; only backends that enforce it receive such calls. */
  readonly floor?: Isolation | undefined
  /** The span of the attempt, for backends with several steps. */
  readonly span?: Span | undefined
  /** The journal of the inner calls of a program, when the host resumes programs. */
  readonly program?: ProgramJournal | undefined
  /** Makes the inner calls of a program; absent without an executor. */
  readonly inner?: InnerCalls | undefined
  /** The nesting of a program that another program runs. */
  readonly place?: ProgramNesting | undefined
  /** Files of callers, read with the identity of the caller. */
  readonly artifacts: Artifacts
  /** Whether the host stores attached files. */
  readonly keepsFiles: boolean
  /** Adds a file that an earlier attempt of this call attached to the effects of the result. */
  attachedBefore(artifact: ArtifactRef): void
  /** Reports facts about the run before the output is returned; later facts replace earlier ones. */
  measured(facts: Measured): void
}

/** Facts about a run, in addition to its output. */
export interface Measured {
  readonly runtime?: NonNullable<Result['runtime']>
  readonly usage?: Usage
  /** Fails the call although it has an output, which the Result then carries. */
  readonly failure?: ToolError
  /** The partial output of a stopped call, for its Result; it is not interpreted as an outcome. */
  readonly partial?: Json
  /** The report of a program over tools. */
  readonly program?: ProgramReport
  /** Added to the warnings of the pipeline on the Result. */
  readonly warnings?: readonly Warning[]
  /** The output is not interpreted: an `exitCode` in it does not fail the call. */
  readonly plain?: boolean
}

/** The result of publishing the tools of a backend. */
export interface Published {
  readonly registered: readonly string[]
  readonly quarantined: readonly string[]
  /** Tools that could not be registered, and why. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[]
}

/** The services of an executor for a backend, valid until the backend is closed. */
export interface BackendHost {
  /** The only path to a network. */
  readonly egress: Egress
  /** The value of `secret:name` for the connection of the backend, redacted from everything that its calls return. */
  secret(name: string, signal: AbortSignal): Promise<string>
  /** Redacts a secret without a name, such as an access token, from everything that the calls of the backend return. */
  conceal(value: string): void
  /** Replaces the tools of this backend; published tools that are not in the list are unregistered. */
  publish(tools: readonly Tool[]): Promise<Published>
  /** Emits a backend event to the listeners of the executor; the text must hold no secret. */
  report(event: BackendReport): void
}

/** A lifecycle event of a backend: the message of `down` has the reason, that of `restarting` the delay. */
export interface BackendReport {
  readonly kind: 'up' | 'down' | 'restarting' | 'changed' | 'log'
  readonly message: string
}

/** Whether a backend can serve calls; `unknown` until it was tried. */
export interface Health {
  readonly status: 'up' | 'down' | 'unknown'
  readonly message?: string
}

/** Confinement requirements of a call: fields of its tool, and the floor of the policy. */
export type Demand = 'profile' | 'runtime' | 'egress' | 'floor'

/** A call that passed lookup, validation and policy. */
export interface BackendCall {
  readonly id: string
  readonly tool: Tool
  readonly args: JsonObject
  /** The binding of the tool that selected this backend. */
  readonly binding: { readonly [option: string]: unknown }
}

/** Reads the binding of a call; a binding that was read before keeps its plan. */
export function planReader<Plan>(
  read: (binding: BackendCall['binding'], tool: Tool) => Plan,
): (call: Pick<BackendCall, 'binding' | 'tool'>) => Plan {
  const plans = new WeakMap<object, Plan>()
  return ({ binding, tool }) => {
    const known = plans.get(binding)
    if (known !== undefined) return known
    const plan = read(binding, tool)
    plans.set(binding, plan)
    return plan
  }
}

/**
 * Executes resolved calls.
 * - It never validates, retries, redacts or logs: the pipeline does.
 * - Lifecycle: `attach` is called first and once, and does no I/O; the first `discover`, `call` or `health` connects.
 * - Concurrency: `call` may run any number of times at once.
 * - Cancellation: it should stop on `context.signal`; the pipeline ends the call on time in any case.
 * - Errors: a rejection becomes the `cause` of BACKEND_FAILED; a ToolError keeps its code. Throw BACKEND_UNAVAILABLE
 *   only when the tool certainly did not start: the pipeline may then try another backend of the tool.
 * - Ownership: the backend owns its copy of the arguments; the executor closes the backends it was given.
 */
export interface Backend {
  /** As written in a tool's binding: `local`, `http`, `mcp`. */
  readonly kind: string
  readonly name: string
  /** The requirements that this backend enforces; a call with another requirement is refused, never run without it. */
  readonly enforces?: readonly Demand[]
  /** A built-in of the executor: listed while a tool is bound to it, and never removed. */
  readonly builtin?: boolean
  /** It runs programs or commands, so the audit log records the arguments and the runtime of each call. */
  readonly runsPrograms?: boolean
  /** A third party defines its tools, so their definitions are pinned and a change is quarantined. */
  readonly pinned?: boolean
  /** A successful call leaves no work behind, so its signal is not aborted at the end. */
  readonly tidy?: boolean
  /** Receives the services of the executor; optional. */
  attach?(host: BackendHost): void
  /**
   * Discovers the tools of the backend, in the namespace of its name, and publishes them; called when a caller first needs
   * them and again after a rejection. A backend without it publishes no tools.
   */
  discover?(signal: AbortSignal): Promise<void>
  /** Throws CONFIG_INVALID for an invalid binding; for checks of a configuration before any call. */
  check?(binding: BackendBinding, tool: Tool): void
  /**
   * The origin of a call with these arguments, for a backend with several origins: each has its own circuit. Undefined
   * when there is only one, or the arguments name none.
   */
  origin?(args: JsonObject, binding: BackendBinding): string | undefined
  /** Whether a failure counts as a fault for the circuit of the backend; `isFault` when absent. */
  isFault?(failure: ToolError): boolean
  /**
   * Says in which runtime a call would run its program, and why, without running it or fetching a secret. A backend without
   * it runs nothing in a sandbox.
   */
  explain?(call: BackendCall, context: Pick<BackendContext, 'identity' | 'floor' | 'signal'>): Promise<RuntimeChoice>
  /** Returns the raw output, an async generator whose values are chunks, or a promise of either. */
  call(call: BackendCall, context: BackendContext): unknown
  health?(signal: AbortSignal): Promise<Health>
  /** What is not there and it cannot start without, such as its program; for checks of a configuration. Starts nothing. */
  missing?(): string | undefined
  close?(signal: AbortSignal): Promise<void>
}

/** The nesting of a program within other programs. */
export interface ProgramNesting {
  /** How many more levels of programs may be nested. */
  readonly depthLeft: number
  /** Spends calls of the budgets of this program and of the programs around it. Throws LIMIT_EXCEEDED. */
  takeCall(count?: number): void
  /** The call that makes the inner calls; it is their parent in the audit log. */
  readonly within?: string | undefined
  /** The program is not resumed, so its calls cannot wait for an asynchronous approval. */
  readonly unattended?: boolean | undefined
}

/** A search result. */
export interface FoundTool {
  readonly id: string
  readonly version: string
  readonly title?: string
  readonly description: string
  readonly tags: readonly string[]
  readonly score: number
}

export interface FoundTools {
  readonly items: readonly FoundTool[]
}

/** The options that every inner call inherits from its program. */
interface InnerOptions {
  readonly identity: Identity
  readonly signal: AbortSignal
  readonly traceparent: string | undefined
  readonly effectSink: EffectSink
  readonly place: ProgramNesting
}

interface InnerCallOptions extends InnerOptions {
  readonly callId: string
  readonly idempotencyKey: string | undefined
  readonly timeoutMs?: number | undefined
  /** The journal of the call, when it is a program itself. */
  readonly program: ProgramJournal | undefined
}

interface InnerChainOptions extends InnerOptions {
  readonly chainId: string
  readonly input: Json | undefined
  /** The limits of the executor when absent. */
  readonly limits: { readonly steps: number; readonly parallel: number } | undefined
  /** Called with the result of each call of the chain. */
  readonly onCall: (result: Result) => void
  readonly around: InnerNames['around']
}

/**
 * The methods of an executor for its programs, under the same policy and audit log as the call of the program.
 * `run` and `chain` never reject for the outcome of a call.
 */
export interface InnerCalls {
  run(tool: string, args: unknown, options: InnerCallOptions): Promise<Result>
  chain(steps: unknown, options: InnerChainOptions): Promise<ChainResult>
  /** How many steps a chain counts as. */
  countSteps(steps: readonly Json[]): number
  search(
    words: string,
    options: { readonly identity: Identity; readonly signal: AbortSignal; readonly limit: number | undefined },
  ): Promise<FoundTools>
  describe(
    tool: string,
    options: { readonly identity: Identity; readonly level?: string | undefined; readonly examples?: number },
  ): Promise<{ readonly examples?: readonly object[] }>
  /** Tools of namespaces and ids, each by its id; tools that are hidden from the caller are left out. */
  named(
    what: { readonly namespaces: readonly string[]; readonly ids: readonly string[] },
    options: { readonly identity: Identity; readonly signal: AbortSignal },
  ): Promise<readonly { readonly id: string; readonly tool: Tool }[]>
}
