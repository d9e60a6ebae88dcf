import { type Isolation, type SandboxLimit, type SandboxLimits, type SandboxNetwork, ToolError } from '@gantry/contract'
import type { Span } from '../tracing/tracer.ts'
import type { Outcome, PackageDigests, Program, Refusal, Sandbox, SandboxJob, SandboxSpec } from './runtime.ts'

/** Confinement requirements of a program, all optional; the profile `standard` by default. */
export interface Confinement {
  readonly profile?: string
  /** Only this kind of runtime. */
  readonly runtime?: string
  /** The least isolation. */
  readonly floor?: Isolation
  /** The least isolation that the host enforces, whatever profile, runtime and floor allow. */
  readonly least?: Isolation
  readonly limits?: Partial<SandboxLimits>
  readonly network?: SandboxNetwork
  /** Egress, for a request with a network. */
  readonly dial?: NonNullable<SandboxSpec['dial']>
  readonly deterministic?: NonNullable<SandboxSpec['deterministic']>
}

/** A program to run once in its own sandbox. */
export interface SandboxRequest extends SandboxJob, Confinement {
  /** Parent of the spans of the sandbox start and the run; its creator ends it. */
  readonly span?: Span
  /** Called with the selected runtime before it starts anything. */
  readonly onRuntime?: (runtime: RanIn['runtime']) => void
}

/** The runtime that ran a program. */
export interface RanIn {
  readonly runtime: {
    readonly kind: string
    readonly isolation: Isolation
    readonly image?: string
    readonly inner?: string
    readonly packages?: PackageDigests
  }
  /** Number of attempts to start a sandbox. */
  readonly attempts: number
  readonly limits: SandboxLimits
}

export interface RunAnswer extends RanIn {
  readonly outcome: Outcome
}

/** An open sandbox; the caller disposes of it. */
export interface OpenedSandbox extends RanIn {
  readonly sandbox: Sandbox
}

/** The properties of a program that decide which runtime may serve it. */
export interface ProgramTraits {
  readonly kind: Program['kind']
  /** Of a program of the kind `code`. */
  readonly language?: string
  /** It keeps its interpreter over several runs. */
  readonly session?: boolean
  /** It is a program over tools. */
  readonly gateway?: boolean
}

/** Why one runtime would run a program or not. */
export interface RuntimeVerdict {
  readonly kind: string
  readonly isolation: Isolation
  /** `spare`: it would serve too, after the chosen one. */
  readonly verdict: 'chosen' | 'spare' | 'refused'
  readonly reason: string
  /** The change that would let it serve; absent when it serves. */
  readonly remedy?: string
}

/** Where a program would run now, and why. */
export interface RuntimeChoice {
  readonly profile: string
  /** The least isolation of profile, call and policy together. */
  readonly floor: Isolation
  readonly program: ProgramTraits
  readonly network: SandboxNetwork
  readonly limits: SandboxLimits
  /** The kind that would run it; absent when no runtime would. */
  readonly chosen?: string
  /** In the order of selection. */
  readonly runtimes: readonly RuntimeVerdict[]
}

export interface RuntimesLoad {
  readonly running: number
  readonly waiting: number
}

/** The status of one runtime, for `gantry doctor`. */
export type RuntimeInfo = {
  readonly kind: string
  readonly isolation: Isolation
  readonly limits: { readonly [Limit in SandboxLimit]?: string }
  readonly languages: readonly string[]
  /** Self-test attacks that were blocked. */
  readonly attacks: readonly string[]
  /** Self-test attacks that succeeded. */
  readonly breached: readonly string[]
} & (
  | { readonly available: true; readonly version: string; readonly startMs: number }
  | ({ readonly available: false; readonly version: string | null; readonly startMs: null } & Refusal)
)

/**
 * All runtimes behind one interface: selects a runtime per request, runs the program in a sandbox and disposes of it.
 * - Concurrency: any number of runs; each has its own sandbox, which is used once.
 * - Cancellation: the signal kills everything in the sandbox; `run` settles when the sandbox has ended.
 * - Errors: the result of a program is an Outcome. INPUT_INVALID and EGRESS_DENIED for requests that contradict themselves
 *   or their profile, RUNTIME_UNAVAILABLE when no runtime is strong enough, SANDBOX_INIT_FAILED after three failed starts,
 *   in each case before the program ran. BACKEND_FAILED when the sandbox broke while the program ran.
 */
export interface Runtimes {
  run(request: SandboxRequest, signal: AbortSignal): Promise<RunAnswer>
  /** Opens a sandbox whose interpreter keeps its state over several runs; `close` also ends it. */
  open(language: string, confinement: Confinement, signal: AbortSignal): Promise<OpenedSandbox>
  /**
   * Takes a sandbox for such a program, a warm one where there is one. The caller runs the program and disposes of the
   * sandbox; `close` also ends it. Rejects as `run` does before the program runs.
   */
  take(program: ProgramTraits, confinement: Confinement, signal: AbortSignal): Promise<OpenedSandbox>
  /**
   * Says which runtime would run a program and why, by the rule of `run`; probes runtimes and runs no program. Rejects with
   * INPUT_INVALID and EGRESS_DENIED as `run` does; a program that no runtime would run is a choice without `chosen`.
   */
  explain(program: ProgramTraits, confinement: Confinement, signal: AbortSignal): Promise<RuntimeChoice>
  /** The number of running programs and of idle pooled sandboxes. */
  load(): RuntimesLoad
  /** Probes every runtime, one at a time, so that probes do not distort each other's timings. */
  list(signal: AbortSignal): Promise<readonly RuntimeInfo[]>
  /** Cancels running programs, waits until all sandboxes have ended and closes the runtimes. */
  close(): Promise<void>
}

/** Creates runtimes; called on first use, so that nothing is loaded before. */
export type RuntimesSource<R extends Runtimes = Runtimes> = () => Promise<R>

/** Runtimes that the first program creates and the executor closes. */
export interface LazyRuntimes<R extends Runtimes = Runtimes> {
  /** Creates the runtimes on first use; rejects with BACKEND_UNAVAILABLE after `close`. */
  readonly get: RuntimesSource<R>
  /** Does not create the runtimes. */
  load(): RuntimesLoad
  close(): Promise<void>
}

const idle: RuntimesLoad = Object.freeze({ running: 0, waiting: 0 })

/** `make` is called at most once, by the first program. */
export function lazyRuntimes<R extends Runtimes>(make: () => Promise<R> | R): LazyRuntimes<R> {
  let made: Promise<R> | undefined
  let known: R | undefined
  let closed = false
  const start = async (): Promise<R> => {
    known = await make()
    return known
  }
  return {
    get() {
      if (closed) return Promise.reject(new ToolError('BACKEND_UNAVAILABLE', 'The executor is closed.'))
      made ??= start()
      return made
    },
    load: () => known?.load() ?? idle,
    async close() {
      closed = true
      // An error of `make` was already returned to the calls that needed the runtimes.
      await (await made?.catch(() => undefined))?.close()
    },
  }
}

/** Shared runtimes, which the host created and closes. */
export function sharedRuntimes<R extends Runtimes>(runtimes: R): LazyRuntimes<R> {
  const lazy = lazyRuntimes(() => runtimes)
  return { get: lazy.get, load: () => runtimes.load(), close: async () => undefined }
}

/** Whether a value is a Runtimes instance. */
export function isRuntimes(value: object): value is Runtimes {
  return 'run' in value && typeof value.run === 'function' && 'list' in value && typeof value.list === 'function'
}

/** Information about the runtimes of an executor. */
export interface RuntimeControl {
  /** Probes each runtime once, with the self-test attacks, and returns its status and a remedy. */
  list(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly RuntimeInfo[]>
  /** The number of running programs and of idle pooled sandboxes; starts nothing. */
  load(): RuntimesLoad
}

/** The runtimes of an executor; the host closes a Runtimes instance that it passed in. */
export function givenRuntimes(given: Runtimes | LazyRuntimes | undefined): LazyRuntimes {
  if (given === undefined) return lazyRuntimes(noRuntimes)
  return isRuntimes(given) ? sharedRuntimes(given) : given
}

export function runtimeControl(runtimes: LazyRuntimes, life: AbortSignal): RuntimeControl {
  return {
    list: async ({ signal = life } = {}) => (await runtimes.get()).list(signal),
    load: runtimes.load,
  }
}

async function noRuntimes(): Promise<Runtimes> {
  const remedy =
    'Run `npm install @gantry/sandbox` and pass `runtimes: createSandboxes()`, or import createExecutor from gantry.'
  throw new ToolError('RUNTIME_UNAVAILABLE', `This executor has no runtimes, so it cannot run programs. ${remedy}`, {
    retryable: false,
  })
}
