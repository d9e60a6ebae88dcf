import { type Json, type SandboxLimit, ToolError } from '@gantry/contract'
import type { Captured, Outcome } from '@gantry/core/internal/runtimes/runtime'
import { launchedOf, spawnLauncher } from './launched.ts'
import type { Spares } from './spares.ts'

/**
 * Starts the launcher with a plan and resolves when the init inside is ready for work; with `early` at once, so that the
 * first job travels while the sandbox is made.
 * - Cancellation: `signal` aborts the start only; what had been started is cleared away first.
 * - Errors: SANDBOX_INIT_FAILED with what bubblewrap or the launcher said last; nothing of it is left then. With `early`
 *   the first run rejects with it.
 * - Ownership: the caller disposes it.
 */
export async function startLauncher(binary: string, plan: LaunchPlan, options: LaunchOptions): Promise<Launched> {
  const { signal, startMs, early = false, spares } = options
  signal.throwIfAborted()
  const launcher = await spawnLauncher(binary, plan, spares?.take)
  const { supervisor, init } = launcher
  const timer = setTimeout(supervisor.kill, startMs)
  void Promise.race([init.ready, supervisor.ended]).then(() => clearTimeout(timer))
  const failure = async (): Promise<ToolError> => notStarted(await supervisor.ended, init.fault(), startMs)
  const launched = launchedOf(launcher, failure)
  if (early && !signal.aborted) return launched
  signal.addEventListener('abort', supervisor.kill, { once: true })
  if (signal.aborted) supervisor.kill()
  try {
    await Promise.race([init.ready, supervisor.ended])
    signal.throwIfAborted()
    if (init.isReady()) return launched
    throw await failure()
  } catch (error) {
    supervisor.kill()
    await supervisor.ended
    throw error
  } finally {
    signal.removeEventListener('abort', supervisor.kill)
  }
}

function notStarted({ reason, message }: LaunchEnd, fault: Error | undefined, startMs: number): ToolError {
  const late = reason === 'killed' && fault === undefined ? `It was not ready after ${startMs} ms. ` : ''
  const said = fault?.message ?? message
  const why = said === undefined ? 'The launcher gave no reason.' : `The launcher said: ${said}`
  return new ToolError('SANDBOX_INIT_FAILED', `The sandbox did not start. ${late}${why}`)
}

interface LaunchOptions {
  readonly signal: AbortSignal
  /** How long the init may take to be ready. */
  readonly startMs: number
  /** Does not wait for the init. */
  readonly early?: boolean
  /** Where a launcher may wait; always a new one when absent. */
  readonly spares?: Spares
}

/**
 * One started sandbox, by way of its supervisor outside and its init inside.
 * - Concurrency: one run at a time.
 * - Errors: see `run`; `start` and `relay` never fail at once, what they bring about shows in the next run.
 */
export interface Launched {
  /** The supervisor; the sandbox is a child of it. */
  readonly pid: number
  /** Resolves when the supervisor has ended and so everything is gone that could be removed; never rejects. */
  readonly ended: Promise<LaunchEnd>
  /** Starts an interpreter ahead; the next run (every run, with `keep`) goes to it instead of to steps. */
  start(step: LaunchStep, options?: { readonly keep?: boolean }): void
  /** Listens on a port of the sandbox's own loopback and forwards each connection to a Unix socket inside. */
  relay(port: number, socket: string): void
  /**
   * Runs a job to its end.
   * - Cancellation: when `signal` aborts, everything in the sandbox is killed and this rejects with the reason.
   * - Errors: BACKEND_FAILED when the sandbox broke; whatever the program does is a RunEnd.
   */
  run(job: LaunchJob, options: RunOptions): Promise<RunEnd>
  /** Kills everything in it and waits until every trace is removed. Harmless when repeated; never rejects. */
  dispose(): Promise<LaunchEnd>
}

/** A program with everything it starts from; `argv[0]` without a slash is looked up in the PATH of `env`. */
export interface LaunchStep {
  readonly argv: readonly [string, ...string[]]
  readonly env: { readonly [name: string]: string }
  /** Absolute, or relative to the workspace; the workspace itself when absent. */
  readonly cwd?: string
  /** Set inside, by the kernel's names in small letters: `nproc` counts per user namespace only there. */
  readonly rlimits?: { readonly [name: string]: number }
}

export interface LaunchJob {
  /** Run in order until one ends other than with code 0; absent for the interpreter that `start` started. */
  readonly steps?: readonly [LaunchStep, ...LaunchStep[]]
  /** By path relative to the workspace, written before the first step. */
  readonly files?: ReadonlyMap<string, Uint8Array | LaunchFile>
  /** For the last step, which gets the end of the stream behind it. A kept interpreter has no stdin: hand it a file. */
  readonly stdin?: Uint8Array
  /** Written to the program's descriptor 3, a newline behind it. */
  readonly line?: string
  /**
   * Makes `{"done":true,"code":n,"token":…}` on descriptor 3 the end of an interpreter that is not kept, which then is not
   * waited for; its processor time and memory are those of the plan's figures, not `rusage`.
   */
  readonly token?: string
  /** Stands before lines on descriptor 3 that are for `onGateway`, with a space behind it. */
  readonly gateway?: string
  readonly stdoutBytes: number
  readonly stderrBytes: number
  /** How much of the workspace is brought out, `.gantry` and files that are as they were handed in excepted. */
  readonly collect?: { readonly files: number; readonly bytes: number }
  /** Held by the init itself, by looking at /proc; for machines where no control group does. */
  readonly watch?: { readonly memoryBytes?: number; readonly pids?: number; readonly cpuMs?: number }
}

export interface LaunchFile {
  readonly bytes: Uint8Array
  /** 0o644 when absent. */
  readonly mode?: number
}

export interface RunOptions {
  /** Enforced by the supervisor, from the moment it learns of the run. */
  readonly wallMs: number
  readonly signal: AbortSignal
  /** Called in order, up to the stream's limit; must not throw. */
  readonly onOutput?: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => void
  /** Called for each JSON value that the program wrote as a line on descriptor 3; must not throw. */
  readonly onMessage?: (message: Json) => void
  /** Called once when descriptor 3 is flooded, of which nothing more is read; must not throw. */
  readonly onFlood?: (error: ToolError) => void
  /**
   * Called for each line of the job's gateway; `send` writes lines back until the run has ended, and returns how many bytes
   * wait to be taken. Must not throw.
   */
  readonly onGateway?: (line: string, send: (line: string) => number) => void
}

/** What became of a job. */
export interface RunEnd {
  /** `{ signal: 'SIGKILL' }` when a limit ended it; of a turn in a kept interpreter the code in its done line, or 0. */
  readonly exit: Outcome['exit']
  /** Which of the steps ended it, from 0. */
  readonly step: number
  readonly stdout: Captured
  readonly stderr: Captured
  /** The JSON values of descriptor 3, 1 MiB of them at most; the line `{"done":true}` of a kept interpreter is not one. */
  readonly messages: readonly Json[]
  /** Lines of descriptor 3 that were no JSON or too much. */
  readonly messagesDropped: number
  /** Members called `__proto__` that were left out of the messages. */
  readonly keysDropped: number
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
  /** The limit that ended it, as far as the launcher knows: not the disk. */
  readonly hit?: SandboxLimit
  /** What is left in the workspace's file system at the end; absent when the run was cut short. */
  readonly free?: { readonly bytes: number; readonly files: number }
  /** A file that could not be written, with the system's code; nothing was run then. */
  readonly unwritten?: { readonly path: string; readonly code: string }
  /** The plan's figures, as they stood at the end; over all runs of the sandbox. */
  readonly figures: { readonly [name: string]: number }
  readonly wallMs: number
  /** Of the processes that have ended, by the kernel's own accounts; absent when the run was cut short. */
  readonly rusage?: Rusage
  /** Whether a further run is possible. */
  readonly alive: boolean
}

interface Rusage {
  readonly userMs: number
  readonly systemMs: number
  /** Of the largest process. */
  readonly maxRssBytes: number
}

/** Why a sandbox is gone. */
export type EndReason = 'exited' | 'wall' | 'watch' | 'killed' | 'owner-gone' | 'start-failed'

/** The supervisor's last word. */
export interface LaunchEnd {
  readonly reason: EndReason
  /** The limit, with `watch`. */
  readonly limit?: SandboxLimit
  /** What went wrong, with `start-failed`, and what bubblewrap said last. */
  readonly message?: string
  readonly figures: { readonly [name: string]: number }
  /** Limits whose figure had reached its value at the end. */
  readonly hits: readonly SandboxLimit[]
  readonly rusage?: Rusage
  /** Folders and control groups that could not be removed. */
  readonly left: readonly string[]
}

/**
 * Everything the launcher needs to start, watch and clear away one sandbox. The launcher knows no policy: it makes the
 * folders, writes the settings, joins, drops to the uid, executes, watches, kills, reads and removes what is named here.
 */
export interface LaunchPlan {
  /** Executed after everything else is in place; bubblewrap with its arguments, ending in the init inside. */
  readonly argv: readonly [string, ...string[]]
  /** A compiled filter for bubblewrap's `--seccomp 9`; the launcher opens it as descriptor 9. */
  readonly seccompFile?: string
  /** Whom to become before executing; absent when we are not root and stay who we are. */
  readonly uid?: number
  readonly gid?: number
  readonly cgroups: CgroupPlan
  /** By the kernel's names in small letters: `core`, `nofile`, `nproc`, `fsize`, `memlock`, `msgqueue`, `sigpending`. */
  readonly rlimits: { readonly [name: string]: number }
  /** Folders of this sandbox on the host, removed with all they hold at the end. */
  readonly folders: readonly string[]
  /** Removed with all they hold when the owner died: what it had made for all of its sandboxes. */
  readonly orphans?: readonly string[]
  /** How often the programs of the sandbox may register a descriptor with epoll; not counted when absent. */
  readonly epollWatches?: number
}

/** The control groups of one sandbox; empty where none may be made. */
export interface CgroupPlan {
  /** Made in this order, joined by way of their `cgroup.procs`, removed in reverse. */
  readonly folders: readonly string[]
  /** Folders to remove last, if they are empty: those of an owner that died. */
  readonly parents?: readonly string[]
  /** Files to write before joining, `[path, text]`. */
  readonly settings: readonly (readonly [string, string])[]
  /** Writing 1 here kills everything at once; absent before Linux 5.14, where all in `cgroup.procs` are killed. */
  readonly killFile?: string
  /** Figures to read at the end; `key` names a line of a `key value` file, absent for a plain number. */
  readonly figures: { readonly [name: string]: { readonly file: string; readonly key?: string } }
  /** Figures that end the run when they reach a value. */
  readonly watches: readonly {
    readonly limit: SandboxLimit
    readonly file: string
    readonly key?: string
    readonly atLeast: number
  }[]
}
