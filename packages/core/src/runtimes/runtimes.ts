import { type Isolation, type SandboxLimit, type SandboxLimits, type SandboxNetwork, ToolError } from '@gantry/contract'
import type { Span } from '../tracing/tracer.ts'
import type { Outcome, Refusal, Sandbox, SandboxJob, SandboxSpec } from './runtime.ts'

/** In what a program is to run; all of it may be left out, which means the profile `standard`. */
export interface Confinement {
  readonly profile?: string
  /** This kind of runtime and no other. */
  readonly runtime?: string
  /** Any runtime that is at least as strong. */
  readonly floor?: Isolation
  /** Nothing weaker than this, whatever the profile, the runtime and the floor say; for those who answer for the host. */
  readonly least?: Isolation
  readonly limits?: Partial<SandboxLimits>
  readonly network?: SandboxNetwork
  /** The guarded way out, for a request with a network. */
  readonly dial?: NonNullable<SandboxSpec['dial']>
  readonly deterministic?: NonNullable<SandboxSpec['deterministic']>
}

/** A program to run once in a sandbox of its own. */
export interface SandboxRequest extends SandboxJob, Confinement {
  /** Below it the start of the sandbox and the run in it are noted; whoever began it ends it. */
  readonly span?: Span
  /** Hears which runtime was chosen, before it starts anything. */
  readonly onRuntime?: (runtime: { readonly kind: string; readonly isolation: Isolation }) => void
}

/** What a program ran in. */
export interface RanIn {
  readonly runtime: { readonly kind: string; readonly isolation: Isolation }
  /** How often a sandbox was started until one did. */
  readonly attempts: number
  readonly limits: SandboxLimits
}

export interface RunAnswer extends RanIn {
  readonly outcome: Outcome
}

/** A sandbox that keeps its interpreter; the caller disposes it. */
export interface OpenedSandbox extends RanIn {
  readonly sandbox: Sandbox
}

export interface RuntimesLoad {
  readonly running: number
  readonly waiting: number
}

/** One runtime as `gantry doctor` shows it. */
export type RuntimeInfo = {
  readonly kind: string
  readonly isolation: Isolation
  readonly limits: { readonly [Limit in SandboxLimit]?: string }
  readonly languages: readonly string[]
  /** Self-test attacks that were refused. */
  readonly attacks: readonly string[]
  /** Self-test attacks that were not. */
  readonly breached: readonly string[]
} & (
  | { readonly available: true; readonly version: string; readonly startMs: number }
  | ({ readonly available: false; readonly version: string | null; readonly startMs: null } & Refusal)
)

/**
 * All runtimes behind one door: chooses one for each request, has a sandbox of it, and leaves nothing behind.
 * - Concurrency: any number of runs; each has a sandbox of its own, which is used once.
 * - Cancellation: the signal kills everything in the sandbox; the answer, a failure too, comes when the sandbox is gone.
 * - Errors: what a program does is an Outcome. INPUT_INVALID and EGRESS_DENIED for requests that contradict themselves
 *   or their profile, RUNTIME_UNAVAILABLE when nothing strong enough is there, SANDBOX_INIT_FAILED after three starts:
 *   nothing ran then. BACKEND_FAILED when the sandbox broke under the program.
 */
export interface Runtimes {
  run(request: SandboxRequest, signal: AbortSignal): Promise<RunAnswer>
  /** Opens a sandbox whose interpreter keeps its state over several runs. `close` ends it too. */
  open(language: string, confinement: Confinement, signal: AbortSignal): Promise<OpenedSandbox>
  /** How many programs run, and how many sandboxes were started ahead of those that will come. */
  load(): RuntimesLoad
  /** Every runtime, probed one after the other, so that none disturbs the times of another. */
  list(signal: AbortSignal): Promise<readonly RuntimeInfo[]>
  /** Cancels what runs, waits until all is gone and closes the runtimes. */
  close(): Promise<void>
}

/** Where runtimes come from; asked at the first call, so that nothing of them is loaded before. */
export type RuntimesSource<R extends Runtimes = Runtimes> = () => Promise<R>

/** Runtimes that are made with the first program that needs one, and closed with the executor that has them. */
export interface LazyRuntimes<R extends Runtimes = Runtimes> {
  /** Makes them at the first call; rejects with BACKEND_UNAVAILABLE after `close`. */
  readonly get: RuntimesSource<R>
  /** Nothing is made for it. */
  load(): RuntimesLoad
  close(): Promise<void>
}

const idle: RuntimesLoad = Object.freeze({ running: 0, waiting: 0 })

/** `make` is called at most once, with the first program. */
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
      // The calls that asked for runtimes which could not be made have that error already.
      await (await made?.catch(() => undefined))?.close()
    },
  }
}

/** Runtimes that the host made: shared, and the host's to close. */
export function sharedRuntimes<R extends Runtimes>(runtimes: R): LazyRuntimes<R> {
  const lazy = lazyRuntimes(() => runtimes)
  return { get: lazy.get, load: () => runtimes.load(), close: async () => undefined }
}

/** Whether a value is runtimes that are made already. */
export function isRuntimes(value: object): value is Runtimes {
  return 'run' in value && typeof value.run === 'function' && 'list' in value && typeof value.list === 'function'
}

/** What an executor reports about its runtimes. */
export interface RuntimeControl {
  /** Starts and attacks each runtime, once, and says what works here and what would help where one does not. */
  list(options?: { readonly signal?: AbortSignal | undefined }): Promise<readonly RuntimeInfo[]>
  /** How many programs run, and how many sandboxes wait for one; nothing is started for it. */
  load(): RuntimesLoad
}

/** The runtimes that an executor was given: ready-made ones stay the host's to close. */
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
