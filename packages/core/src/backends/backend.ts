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
import type { Span } from '../tracing/tracer.ts'
import type { FoundTools, InnerCalls, ProgramNesting } from './inner-calls.ts'
import type { ProgramJournal } from './program-journal.ts'

/** One progress report, when the positional form does not fit. */
export interface ProgressReport {
  readonly progress: number
  readonly total?: number
  readonly message?: string
}

/**
 * What a tool sees of the call it serves. Its functions may be taken off and passed on.
 * After the call has ended, reports are ignored and `signal` is aborted if anyone asked for it.
 */
export interface ToolContext {
  readonly callId: string
  /** Id of the tool that runs, with its version. */
  readonly tool: string
  readonly identity: Identity
  /** Stable over attempts; pass it downstream. The call id when the caller gave none. */
  readonly idempotencyKey: string
  /** 1 for the first attempt. */
  readonly attempt: number
  /** Rises with every holder of a durable call: a store that keeps the highest can refuse one that came back late. */
  readonly fence: number | undefined
  /** The call's place in a trace, as W3C writes it; pass it downstream. Undefined when it belongs to none. */
  readonly traceparent?: string | undefined
  /**
   * What the gateway of the caller says of the occasion of the call: display names, message ids, the context of a room.
   * It is data from outside, as hostile as the arguments, and says nothing of who calls: `identity` does. Backends do not
   * forward it. Undefined when the call came without any.
   */
  readonly origin?: JsonObject | undefined
  /** Aborted on cancel, timeout and when the caller goes away; its reason says which. */
  readonly signal: AbortSignal
  /** Only the secrets the tool declares. */
  readonly secrets: { readonly [name: string]: string }
  progress(progress: number | ProgressReport, total?: number, message?: string): void
  log(message: string, data?: Json): void
  log(level: LogLevel, message: string, data?: Json): void
  /**
   * Sends a message to the caller's world while the tool runs: it leaves at once, is numbered within the call, and is an
   * effect of the result once it is safe; when it could not be sent, the result says so in a warning. A message that
   * left stays sent whatever becomes of the call. Throws OUTPUT_INVALID for what is no JSON, LIMIT_EXCEEDED for too much.
   */
  send(message: Json): void
  /**
   * Leaves a file for the caller, as an artifact and an effect of the result. The content is copied. Rejects with
   * STORE_UNAVAILABLE when it cannot be kept or the host keeps no files, LIMIT_EXCEEDED for too many or too large ones.
   */
  attach(file: AttachedFile): Promise<ArtifactRef>
  /**
   * Offers a tool to the caller from here on, as an effect of the result; it gives no right to call it. Throws
   * OUTPUT_INVALID for a tool that is not there for this caller, LIMIT_EXCEEDED for too many.
   */
  inject(tool: string): void
  /**
   * Calls another tool in the name of the caller of this one: always a Result, whatever the outcome. The inner call passes
   * the same pipeline under the same policy, is in the trace and has this call as its parent in the audit log. It ends with
   * this call, and nothing of it is kept for a repeat: it is a part of this call's effect. A call that a person must
   * approve is APPROVAL_REQUIRED where the host asks later. Rejects with LIMIT_EXCEEDED past `limits.innerCalls` or
   * `limits.innerDepth`, which all calls inside one another share, and with CANCELLED after this call has ended.
   */
  run(tool: string, args?: unknown, options?: ToolCallOptions): Promise<Result>
  /** Runs a chain in the same way; each of its calls counts. */
  chain(steps: readonly ChainStep[], options?: ToolChainOptions): Promise<ChainResult>
  /** Tools that fit the words, best first, of those that the caller may use. */
  search(query: string, options?: InnerSearchOptions): Promise<FoundTools>
}

/** How a call inside a tool differs from the executor's defaults. */
export interface ToolCallOptions {
  readonly timeoutMs?: number | undefined
  /** Made of the outer call's key and the number of the call when absent. */
  readonly idempotencyKey?: string | undefined
  /** Ends it before the outer call ends. */
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

/** A file that a tool leaves for its caller. */
export interface AttachedFile {
  /** What it is to be called; folders and what cannot be seen are taken out of it. */
  readonly name: string
  readonly content: string | Uint8Array
  /** `text/plain` for a text, `application/octet-stream` for bytes, unless told. */
  readonly mimeType?: string
}

/** What a backend sees of a call, beyond what its tool may see. */
export interface BackendContext extends ToolContext {
  /**
   * The value behind `secret:name` for this caller; from here on it is kept out of everything that leaves the call.
   * Ask at the last moment and keep nothing. Rejects with SECRET_UNAVAILABLE.
   */
  secret(name: string): Promise<string>
  /** Keeps a text that was made of secrets, such as basic credentials, out of everything that leaves the call. */
  conceal(value: string): void
  /** The least isolation that the policy demands of a program; only backends that enforce it get such calls. */
  readonly floor?: Isolation | undefined
  /** The attempt as a tracer sees it, for backends that take several steps. */
  readonly span?: Span | undefined
  /** Keeps what the inner calls of a program come to, when the host takes programs up again. */
  readonly program?: ProgramJournal | undefined
  /** For the inner calls of a program; absent where there is no executor around. */
  readonly inner?: InnerCalls | undefined
  /** Of a program that another one runs. */
  readonly place?: ProgramNesting | undefined
  /** Files of callers, to be read in the caller's name. */
  readonly artifacts: Artifacts
  /** Whether the host keeps what is attached. */
  readonly keepsFiles: boolean
  /** Lists a file among the effects of the result that an earlier attempt of this call attached. */
  attachedBefore(artifact: ArtifactRef): void
  /** Says what is known of the run besides its output, before the output is returned; later facts replace earlier ones. */
  measured(facts: Measured): void
}

/** What a backend knows of a run besides its output. */
export interface Measured {
  readonly runtime?: NonNullable<Result['runtime']>
  readonly usage?: Usage
  /** Ends the call as failed although there is an output, which its Result then carries. */
  readonly failure?: ToolError
  /** What there is of an output when the call is stopped, for its Result; nothing in it counts as an answer. */
  readonly partial?: Json
  /** What a program over tools did besides. */
  readonly program?: ProgramReport
  /** For the Result, beside those of the pipeline. */
  readonly warnings?: readonly Warning[]
  /** Nothing in the output says whether the call succeeded: an `exitCode` in it is a value like any other. */
  readonly plain?: boolean
}

/** What happened to the tools that a backend brought. */
export interface Published {
  readonly registered: readonly string[]
  readonly quarantined: readonly string[]
  /** Tools that could not be registered, and why. */
  readonly refused: readonly { readonly name: string; readonly reason: string }[]
}

/** What an executor gives a backend for as long as both live. */
export interface BackendHost {
  /** The only way out to a network. */
  readonly egress: Egress
  /** The value behind `secret:name` for the backend's own connection, kept out of all that its calls send back. */
  secret(name: string, signal: AbortSignal): Promise<string>
  /** Keeps a value that is secret without having a name (an access token) out of all that its calls send back. */
  conceal(value: string): void
  /** Makes these all the tools that this backend brings; those it brought before and are not here go. */
  publish(tools: readonly Tool[]): Promise<Published>
  /** Tells subscribers of the executor what happens to the backend; the text must hold no secret. */
  report(event: BackendReport): void
}

/** A backend's life: `down` comes with the reason, `restarting` with the time until then. */
export interface BackendReport {
  readonly kind: 'up' | 'down' | 'restarting' | 'changed' | 'log'
  readonly message: string
}

/** Whether a backend can take calls; `unknown` until somebody tried. */
export interface Health {
  readonly status: 'up' | 'down' | 'unknown'
  readonly message?: string
}

/** What confines a call where it runs: fields of its tool, and the floor that the policy sets. */
export type Demand = 'profile' | 'runtime' | 'egress' | 'floor'

/** A call that passed lookup, validation and policy. */
export interface BackendCall {
  readonly id: string
  readonly tool: Tool
  readonly args: JsonObject
  /** The binding of the tool that chose this backend. */
  readonly binding: { readonly [option: string]: unknown }
}

/**
 * How a resolved call reaches the thing that does the work.
 * - It never validates, retries, redacts or logs: the pipeline does.
 * - Life: `attach` comes first and once, and does no I/O; connecting waits for the first `discover`, `call` or `health`.
 * - Concurrency: `call` may run any number of times at once.
 * - Cancellation: it should stop on `context.signal`; the pipeline ends the call on time whether it does or not.
 * - Errors: a rejection becomes the `cause` of BACKEND_FAILED; a ToolError keeps its code. Throw BACKEND_UNAVAILABLE
 *   only when the tool certainly did not start: the pipeline may then try another backend of the tool.
 * - Ownership: the arguments are the backend's own copy; the executor closes the backends it was given.
 */
export interface Backend {
  /** As written in a tool's binding: `local`, `http`, `mcp`. */
  readonly kind: string
  readonly name: string
  /** What of the demands on a call this backend holds it to; one with another demand is refused, never run without it. */
  readonly enforces?: readonly Demand[]
  /** Part of an executor's own set: listed while a tool is bound to it, and never removed. */
  readonly builtin?: boolean
  /** It runs programs or commands, so each of its calls is on record with its arguments and where it ran. */
  readonly runsPrograms?: boolean
  /** Its tools are described by somebody else, so their definitions are pinned and a change is quarantined. */
  readonly pinned?: boolean
  /** Nothing of a call goes on once it ended well, so its signal is spared the abort that tells others of the end. */
  readonly tidy?: boolean
  /** Takes what the executor offers; a backend that needs nothing has no such function. */
  attach?(host: BackendHost): void
  /**
   * Finds the tools that the backend brings, in the namespace of its name, and publishes them; called when somebody
   * first looks for them and again after it rejected. A backend without it brings none.
   */
  discover?(signal: AbortSignal): Promise<void>
  /** Throws CONFIG_INVALID for a binding that no call could be made with; for those who look before they run. */
  check?(binding: BackendBinding, tool: Tool): void
  /**
   * The origin that a call with these arguments goes to, for a backend that reaches several: each has a circuit of its
   * own. Undefined when there is only one, or the arguments name none.
   */
  origin?(args: JsonObject, binding: BackendBinding): string | undefined
  /** Whether a failure speaks against the backend and counts for its circuit; what `isFault` says when absent. */
  isFault?(failure: ToolError): boolean
  /** Returns the raw output, an async generator whose values are chunks, or a promise of either. */
  call(call: BackendCall, context: BackendContext): unknown
  health?(signal: AbortSignal): Promise<Health>
  close?(signal: AbortSignal): Promise<void>
}
