import type { Isolation, Json, SandboxLimit, SandboxLimits, SandboxNetwork } from '@gantry/contract'
import type { Egress } from '../egress/egress.ts'

/**
 * Runs untrusted programs. Each driver, in `@gantry/sandbox` or a package `@gantry/sandbox-*`, implements one runtime and
 * passes the suite `testRuntime` and the attacks of `@gantry/conformance`. A runtime knows programs and limits, and no
 * tools, catalogs or transports.
 */
export interface Runtime {
  /** The name in configuration, results and audit records: `process`, `wasm`, `unsafe_host`. */
  readonly kind: string
  /** Where there are several, as in `remote`, the strongest; `none` while it is not known. */
  readonly isolation: Isolation
  /**
   * Its sandboxes are on other hosts, which select a runtime for each. A spec names the least isolation then, and a sandbox
   * says which one it has.
   */
  readonly elsewhere?: true
  /** Relative cost of a new sandbox: the cheapest runtime that meets a request is selected. */
  readonly cost: number
  /** Supported kinds of program. */
  readonly programs: readonly Program['kind'][]
  /** The kinds of configured packages that its sandboxes can have; none when absent. */
  readonly packages?: readonly PackageKind[]
  /** The digest of the image that its sandboxes are made from; undefined before the first probe, and without an image. */
  image?(): string | undefined
  /** Approximate memory of an idle sandbox in bytes, as it was measured when the runtime was written. */
  idleBytes?(spec: SandboxSpec): number
  /**
   * Tests whether the runtime works on this machine and isolates: starts a real sandbox and runs the self-test attacks.
   * Rejects only when its signal aborts; the caller caches the result.
   */
  probe(signal: AbortSignal): Promise<Probe>
  /** Why the runtime cannot open such a sandbox, with a remedy; undefined when it can. Cheap, no I/O. */
  refuses(spec: SandboxSpec): Refusal | undefined
  /**
   * Opens a new sandbox with an empty workspace, with a started interpreter when the spec has a language.
   * - Cancellation: `signal` aborts only the opening.
   * - Errors: SANDBOX_INIT_FAILED when it did not start; everything is cleaned up then.
   * - Ownership: the caller disposes of it; an open sandbox holds memory even when it is never run.
   */
  open(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** Ends every sandbox and removes all resources of the runtime; afterwards `open` rejects. */
  close(): Promise<void>
}

/** Where configured packages come from: an index of Python or of npm. */
export type PackageKind = 'python' | 'node'

/** The parameters needed to start a sandbox, without a program, so that pools can start one ahead of time. */
export interface SandboxSpec {
  /** The language of the interpreter to start; absent for commands, shell scripts and WASI modules. */
  readonly language?: string
  readonly limits: SandboxLimits
  readonly network: SandboxNetwork
  /** Egress of a sandbox with a network: the guard, its owner and tenant, and the credentials behind placeholders. */
  readonly dial?: {
    readonly egress: Egress
    readonly owner: string
    readonly tenant?: string
    readonly credentials?: readonly Credential[]
  }
  /** Keeps the interpreter and its state over several runs, until the sandbox is disposed of. */
  readonly session?: boolean
  /** Makes programs deterministic: random numbers from this seed, and a clock that stands still at this time. */
  readonly deterministic?: { readonly seed: number; readonly nowMs: number }
  /** Requires that the kernel enforces every limit and that no network is reachable, as the profile `hardened` does. */
  readonly strict?: boolean
  /** The program uses a gateway (`SandboxJob.gateway`); a runtime without one for this language refuses. */
  readonly gateway?: boolean
  /** The least isolation, for a runtime that has several. */
  readonly floor?: Isolation
  /** The configured packages that programs of the sandbox find; only a runtime with `packages` is asked for any. */
  readonly packages?: readonly PackageKind[]
}

/**
 * One started sandbox. Without `session` it runs one program and must then be disposed of.
 * - Concurrency: one run at a time.
 * - Cancellation: when `signal` aborts, everything in the sandbox is killed and `run` rejects with the reason.
 * - Errors: the result of the program is an Outcome. A sandbox that breaks is BACKEND_FAILED, or SANDBOX_INIT_FAILED
 *   before the program started.
 */
export interface Sandbox {
  readonly id: string
  /** Resolves when the sandbox has ended for any reason; a pool does not hand it out after that. */
  readonly ended: Promise<void>
  /** The memory that it uses now in bytes; undefined when that cannot be read. Cheap. */
  memoryBytes?(): number | undefined
  /** Absent where the runtime does not pause sandboxes. */
  readonly pausing?: Pausing
  /** The digest of the image that it was made from, when the runtime may have another one by now. */
  readonly image?: string
  /** The digests of the packages that its programs find, by kind. */
  readonly packages?: PackageDigests
  /** The runtime that another host selected for it; undefined until the end of the run where the host selects it with the job. */
  readonly within?: { readonly kind: string; readonly isolation: Isolation; readonly image?: string } | undefined
  run(job: SandboxJob, signal: AbortSignal): Promise<Outcome>
  /**
   * Kills all processes without removing the sandbox, and returns true when none of them lives. Absent where the removal
   * takes no longer than that; false means that only `dispose` does it. Never rejects.
   */
  kill?(): Promise<boolean>
  /** Kills all processes, removes all resources and waits for both. Idempotent; never rejects. */
  dispose(): Promise<void>
}

/**
 * Stops the processes of a sandbox that waits for its program, so that it uses no processor, and lets them run on.
 * - Concurrency: one request at a time, pause and resume alternate, none during a run. A paused sandbox can be disposed of.
 * - Errors: rejects when the engine did not do it; then nothing is known of the sandbox, and it must be disposed of.
 */
export interface Pausing {
  pause(signal: AbortSignal): Promise<void>
  resume(signal: AbortSignal): Promise<void>
}

/** Digests of built packages: `sha256:…`. */
export type PackageDigests = { readonly [Kind in PackageKind]?: string }

/** The program to run. */
export type Program =
  | { readonly kind: 'code'; readonly language: string; readonly code: string }
  | { readonly kind: 'argv'; readonly argv: readonly [string, ...string[]] }
  /** Run by a POSIX shell. */
  | { readonly kind: 'script'; readonly script: string }
  /** A WASI preview 1 module. */
  | { readonly kind: 'wasi'; readonly module: Uint8Array; readonly argv?: readonly string[] }

export interface SandboxJob {
  readonly program: Program
  /** The tenant, for round-robin scheduling of waiting programs. Not visible to the program. */
  readonly tenant?: string
  readonly stdin?: Uint8Array
  /** By path relative to the workspace; checked paths only (see `checkPath`). */
  readonly files?: ReadonlyMap<string, Uint8Array>
  /** The whole environment, except for the variables of the runtime (PATH, HOME, TMPDIR, LANG). */
  readonly env?: { readonly [name: string]: string }
  /** Limits on files collected from the workspace; none are collected when absent. */
  readonly collect?: { readonly files: number; readonly bytes: number }
  /** Called with output in order, up to the limit of the stream; must not throw. */
  readonly onOutput?: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => void
  /** Called for each message on descriptor 3 that is not the value; must not throw. */
  readonly onMessage?: (message: ProgramMessage) => void
  /** Makes it a program over tools, with functions for gateway requests; only for languages that `refuses` accepts. */
  readonly gateway?: ProgramGateway
}

/**
 * Handles the gateway requests of a running program. Only JSON text crosses, in both directions.
 * - Order: the program numbers its requests from 1 on. Responses are delivered in the order in which they are given, and
 *   the program becomes quiescent between two, so that the same responses in the same order replay the same program.
 * - Ownership: the host of the job answers each request once; a response without a request fails the run.
 */
export interface ProgramGateway {
  /**
   * Called each time the program becomes quiescent: it cannot continue without a response and has received all responses
   * so far. `questions` are the requests since the last time; the list is empty when there is no new request, so that the
   * host learns of every quiescence. Must not throw. `answer` may be called at any time from then on; after the run has
   * ended it does nothing. A program that has returned stays until its calls and chains are answered, not its sleeps.
   * `working` is true when part of the program, such as a thread, may still run.
   */
  ask(questions: readonly ProgramRequest[], answer: (answer: ProgramResponse) => void, working?: boolean): void
}

export interface ProgramRequest {
  readonly number: number
  /** Untrusted: `call`, `chain`, `search`, `describe`, `examples`, `artifact`, `sleep`. */
  readonly kind: string
  /**
   * JSON text. call: `{tool, args}`; chain: `{steps, input}`; search: `{words, limit?}`; describe: `{tool, level?}`;
   * examples: `{tool}`; artifact: `{put: {name, content | base64, mimeType?}}` or `{get: id}`; sleep: `{ms}`.
   */
  readonly text: string
}

export interface ProgramResponse {
  readonly number: number
  /** True for a value; false for an error to throw: `{code, message, retryable, details?}`. */
  readonly ok: boolean
  /** JSON text. */
  readonly text: string
  /** The time of the clock of a deterministic program from now on. */
  readonly nowMs?: number
}

/**
 * A message of a program on descriptor 3, one JSON object per line: `{"progress":1,"total":3,"message":"…"}`,
 * `{"log":"…"}`, and its result as `{"value":…}`, of which the last counts.
 */
export type ProgramMessage =
  | { readonly kind: 'progress'; readonly progress: number; readonly total?: number; readonly message?: string }
  | { readonly kind: 'log'; readonly message: string }

/** One captured output stream. */
export interface Captured {
  readonly bytes: Uint8Array
  /** Bytes that the program wrote, as far as they were counted; may exceed the captured bytes. */
  readonly total: number
  readonly truncated: boolean
}

/** The outcome of a program and its measured resource usage. */
export interface Outcome {
  readonly exit: { readonly code: number } | { readonly signal: string }
  readonly stdout: Captured
  readonly stderr: Captured
  readonly value?: Json
  /** Dropped input of descriptor 3: lines that are not JSON or exceed the limit, and `__proto__` keys. */
  readonly lost?: { readonly lines: number; readonly keys: number }
  readonly files: ReadonlyMap<string, Uint8Array>
  /** Files that were not collected: links, devices, sockets, and files over the limit. */
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
  readonly usage: { readonly wallMs: number; readonly cpuMs?: number; readonly memoryPeakBytes?: number }
  /** The enforced limits and their mechanisms: `cgroup v1 memory`, `tmpfs size`, `timer`. */
  readonly enforced: { readonly [Limit in SandboxLimit]?: string }
  /** The limit that ended the program. */
  readonly hit?: SandboxLimit
  /** The failure of a program over tools, when the program itself failed. */
  readonly fault?: ProgramFault
}

/** The failure that a program over tools reports; untrusted. */
export interface ProgramFault {
  /** `compile`: the program did not run. `run`: an uncaught error, or a value that is not JSON. */
  readonly kind: 'compile' | 'run'
  /** Name of the error: `TypeError`, `ToolError`. */
  readonly name: string
  readonly message: string
  /** Position in the submitted source, from 1 on. */
  readonly line?: number
  readonly column?: number
  readonly stack?: string
  /** For an uncaught error of a tool: the text of its response. */
  readonly error?: Json
}

/** Whether a runtime works here. */
export type Probe =
  | {
      readonly available: true
      readonly version: string
      /** Time from the start of a sandbox to the end of a program, the fastest of three. */
      readonly startMs: number
      /** The limits it enforces here and their mechanisms. */
      readonly limits: { readonly [Limit in SandboxLimit]?: string }
      /** Languages with an installed toolchain. */
      readonly languages: readonly string[]
      /** Self-test attacks that ran, all of them blocked. */
      readonly attacks: readonly string[]
    }
  | ({
      readonly available: false
      readonly version?: string
      /** Self-test attacks that succeeded; the runtime stays refused, because a second probe would not make it safe. */
      readonly breached?: readonly string[]
    } & Refusal)

/** The reason of a refusal and its remedy. */
export interface Refusal {
  readonly reason: string
  readonly remedy: string
}

/** The parts of a request in which a placeholder is replaced by its secret. */
export type CredentialLocation = 'header' | 'query' | 'body'

/** A secret that programs in a sandbox use through a placeholder, without knowing it. */
export interface Credential {
  /** The environment variable that holds the placeholder. */
  readonly variable: string
  /** A function, so that serializing a spec does not serialize the secret. */
  readonly value: () => string
  /** Origins, in the form of egress rules, that may receive the secret. */
  readonly hosts: readonly string[]
  /** Headers only when absent. */
  readonly in?: readonly CredentialLocation[]
}

/**
 * Weakest first. A container uses namespaces too; it ranks above them because its root file system is not part of the
 * host, so a request for `namespaces` may get a container, and not the other way round.
 */
export const isolations: readonly Isolation[] = ['none', 'wasm', 'namespaces', 'container', 'kernel', 'microvm']

export function isIsolation(value: unknown): value is Isolation {
  return isolations.some((isolation) => isolation === value)
}

/** Whether an isolation is at least as strong as a floor. */
export function meets(isolation: Isolation, floor: Isolation): boolean {
  return isolations.indexOf(isolation) >= isolations.indexOf(floor)
}

/** The stronger of two. */
export function stronger(one: Isolation, other: Isolation): Isolation {
  return meets(one, other) ? one : other
}
