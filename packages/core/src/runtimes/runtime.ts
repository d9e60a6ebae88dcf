import type { Isolation, Json, SandboxLimit, SandboxLimits, SandboxNetwork } from '@gantry/contract'
import type { Egress } from '../egress/egress.ts'

/**
 * Where untrusted programs run. Each driver is one runtime, in `@gantry/sandbox` or a package `@gantry/sandbox-*`; each
 * passes the suite `testRuntime` and the attacks of `@gantry/conformance`. A runtime knows programs and limits; it does
 * not know tools, catalogs or transports.
 */
export interface Runtime {
  /** As written in configuration, results and audit records: `process`, `wasm`, `unsafe_host`. */
  readonly kind: string
  readonly isolation: Isolation
  /** Relative price of a fresh sandbox: of those that meet a request the cheapest is chosen. */
  readonly cost: number
  /** Kinds of program that it can run. */
  readonly programs: readonly Program['kind'][]
  /** About how many bytes a sandbox holds while it waits for its program, as measured. */
  idleBytes?(spec: SandboxSpec): number
  /**
   * Tries whether the runtime works on this machine and holds: starts it for real and runs the self-test attacks.
   * Never rejects but for its signal; whoever asks keeps the answer.
   */
  probe(signal: AbortSignal): Promise<Probe>
  /** Why a sandbox for this cannot be had here, in a sentence with a remedy; undefined when it can. Cheap, no I/O. */
  refuses(spec: SandboxSpec): Refusal | undefined
  /**
   * Opens a fresh sandbox with an empty workspace, its interpreter started where the spec names a language.
   * - Cancellation: `signal` aborts the opening only.
   * - Errors: SANDBOX_INIT_FAILED when it did not start; nothing of it is left then.
   * - Ownership: the caller disposes it; an open sandbox that is never run holds memory.
   */
  open(spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox>
  /** Ends every sandbox and removes what belongs to the runtime; after it `open` rejects. */
  close(): Promise<void>
}

/** What must be known when a sandbox starts, so that one can be started before there is a program for it. */
export interface SandboxSpec {
  /** The language whose interpreter waits inside; absent for commands, shell scripts and WASI modules. */
  readonly language?: string
  readonly limits: SandboxLimits
  readonly network: SandboxNetwork
  /** The guarded way out, for sandboxes with a network, in whose name it is used, and what it puts in for placeholders. */
  readonly dial?: {
    readonly egress: Egress
    readonly owner: string
    readonly tenant?: string
    readonly credentials?: readonly Credential[]
  }
  /** Keeps the interpreter and its state over several runs, until the sandbox is disposed. */
  readonly session?: boolean
  /** The same program gives the same result: random numbers from this seed, a clock that stands at this time. */
  readonly deterministic?: { readonly seed: number; readonly nowMs: number }
  /** Every limit must be held by the kernel, and nothing may be reached: what the profile `hardened` asks for. */
  readonly strict?: boolean
  /** Its program asks its host while it runs (`SandboxJob.gateway`); a runtime that cannot do so in this language refuses. */
  readonly gateway?: boolean
}

/**
 * One started sandbox. Without `session` it runs one program and is then only good to be disposed.
 * - Concurrency: one run at a time.
 * - Cancellation: when `signal` aborts, everything in the sandbox is killed and `run` rejects with the reason.
 * - Errors: what the program does is an Outcome. A sandbox that breaks is BACKEND_FAILED, before the program began
 *   SANDBOX_INIT_FAILED.
 */
export interface Sandbox {
  readonly id: string
  /** Resolves when the sandbox is gone, for whatever reason; a pool gives none out after that. */
  readonly ended: Promise<void>
  run(job: SandboxJob, signal: AbortSignal): Promise<Outcome>
  /** Kills what is left and removes every trace; waits until that is done. Harmless when repeated; never rejects. */
  dispose(): Promise<void>
}

/** What to run. */
export type Program =
  | { readonly kind: 'code'; readonly language: string; readonly code: string }
  | { readonly kind: 'argv'; readonly argv: readonly [string, ...string[]] }
  /** Read by a POSIX shell. */
  | { readonly kind: 'script'; readonly script: string }
  /** A WASI preview 1 module. */
  | { readonly kind: 'wasi'; readonly module: Uint8Array; readonly argv?: readonly string[] }

export interface SandboxJob {
  readonly program: Program
  /** For which tenant it runs: where programs wait for each other, tenants take turns. The program does not learn it. */
  readonly tenant?: string
  readonly stdin?: Uint8Array
  /** By path relative to the workspace; checked paths only (see `checkPath`). */
  readonly files?: ReadonlyMap<string, Uint8Array>
  /** The whole environment besides what the runtime itself needs (PATH, HOME, TMPDIR, LANG). */
  readonly env?: { readonly [name: string]: string }
  /** How much of the workspace is brought out; nothing when absent. */
  readonly collect?: { readonly files: number; readonly bytes: number }
  /** Called while the program runs, in order, up to the stream's limit; must not throw. */
  readonly onOutput?: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => void
  /** Called for each message on the program's own channel that is not its value; must not throw. */
  readonly onMessage?: (message: ProgramMessage) => void
  /** Makes it a program over tools, which has functions to ask its host; only for code in a language that `refuses` lets. */
  readonly gateway?: ProgramGateway
}

/**
 * Lets a program ask its host for something while it runs. Only JSON text crosses, both ways.
 * - Order: what is asked is numbered by the program, from 1 on. Answers are told in the order in which they are given, and
 *   the program comes to rest between two, so that the same answers in the same order make the same program.
 * - Ownership: whoever runs the job answers each question once; an answer that nobody asked for ends the run as broken.
 */
export interface ProgramGateway {
  /**
   * Called with all that the program has asked for since the last time, once it can do nothing without an answer and was
   * told all that were given; must not throw. The list is empty when such a rest brought nothing new, so that whoever
   * answers knows of every rest. From here on `answer` may be called at any time until the run has ended, when it does
   * nothing. A program that has returned still rests until its calls and chains are answered; its sleeps are not waited for.
   * `working` is true when something of it may go on all the same, such as a thread.
   */
  ask(questions: readonly ProgramRequest[], answer: (answer: ProgramResponse) => void, working?: boolean): void
}

export interface ProgramRequest {
  readonly number: number
  /** As hostile as the program: `call`, `chain`, `search`, `describe`, `examples`, `artifact`, `sleep`. */
  readonly kind: string
  /**
   * JSON text. call: `{tool, args}`; chain: `{steps, input}`; search: `{words, limit?}`; describe: `{tool, level?}`;
   * examples: `{tool}`; artifact: `{put: {name, content | base64, mimeType?}}` or `{get: id}`; sleep: `{ms}`.
   */
  readonly text: string
}

export interface ProgramResponse {
  readonly number: number
  /** Whether the text is a value, or an error to be thrown: `{code, message, retryable, details?}`. */
  readonly ok: boolean
  /** JSON text. */
  readonly text: string
  /** What the clock of a deterministic program shows from here on. */
  readonly nowMs?: number
}

/**
 * What a program says on descriptor 3, one JSON object a line: `{"progress":1,"total":3,"message":"…"}`,
 * `{"log":"…"}`, and its result as `{"value":…}`, of which the last counts.
 */
export type ProgramMessage =
  | { readonly kind: 'progress'; readonly progress: number; readonly total?: number; readonly message?: string }
  | { readonly kind: 'log'; readonly message: string }

/** One stream as it was kept. */
export interface Captured {
  readonly bytes: Uint8Array
  /** Bytes that the program wrote, as far as they were counted. */
  readonly total: number
  readonly truncated: boolean
}

/** What became of a program, and what it used, as measured. */
export interface Outcome {
  readonly exit: { readonly code: number } | { readonly signal: string }
  readonly stdout: Captured
  readonly stderr: Captured
  readonly value?: Json
  /** What of descriptor 3 was left out: lines that are no JSON or too much, and `__proto__` keys. */
  readonly lost?: { readonly lines: number; readonly keys: number }
  readonly files: ReadonlyMap<string, Uint8Array>
  /** Files that were not brought out: links, devices, sockets, and what was over the limit. */
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
  readonly usage: { readonly wallMs: number; readonly cpuMs?: number; readonly memoryPeakBytes?: number }
  /** Which limits were held, and by what: `cgroup v1 memory`, `tmpfs size`, `timer`. */
  readonly enforced: { readonly [Limit in SandboxLimit]?: string }
  /** The limit that ended the program. */
  readonly hit?: SandboxLimit
  /** How a program over tools failed, when it did so by itself. */
  readonly fault?: ProgramFault
}

/** How a program over tools failed; what it says of itself, and as hostile as the program. */
export interface ProgramFault {
  /** `compile`: nothing of it ran. `run`: an error that it did not catch, or a value that is no JSON. */
  readonly kind: 'compile' | 'run'
  /** Of the error: `TypeError`, `ToolError`. */
  readonly name: string
  readonly message: string
  /** In the source as it was handed in, from 1 on. */
  readonly line?: number
  readonly column?: number
  readonly stack?: string
  /** Of a tool's error that was not caught: what its `answer` was. */
  readonly error?: Json
}

/** Whether a runtime works here. */
export type Probe =
  | {
      readonly available: true
      readonly version: string
      /** Time from nothing to a program's end, of the fastest of three. */
      readonly startMs: number
      /** Which limits it holds here, and by what. */
      readonly limits: { readonly [Limit in SandboxLimit]?: string }
      /** Languages whose toolchain is there. */
      readonly languages: readonly string[]
      /** Self-test attacks that ran, all of them refused. */
      readonly attacks: readonly string[]
    }
  | ({
      readonly available: false
      readonly version?: string
      /** Self-test attacks that succeeded; such a runtime stays refused, because another try would not make it hold. */
      readonly breached?: readonly string[]
    } & Refusal)

/** Why not, and what would help. */
export interface Refusal {
  readonly reason: string
  readonly remedy: string
}

/** Where in a request a placeholder may stand for its secret. */
export type CredentialLocation = 'header' | 'query' | 'body'

/** A secret that programs in a sandbox use without having it. */
export interface Credential {
  /** The variable of the environment whose value is the placeholder. */
  readonly variable: string
  /** A function, so that nothing that writes a sandbox down writes the secret down. */
  readonly value: () => string
  /** Origins, as egress rules name them, that may be told the secret. */
  readonly hosts: readonly string[]
  /** Headers alone when absent. */
  readonly in?: readonly CredentialLocation[]
}

/**
 * Weakest first. A container is held by namespaces too; it stands above them because its root file system is a foreign
 * one and not a part of the host's, so that whoever asks for `namespaces` may get it, and not the other way round.
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
