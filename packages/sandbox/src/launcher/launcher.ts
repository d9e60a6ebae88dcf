import type { ChildProcess } from 'node:child_process'
import { type Json, type SandboxLimit, ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Captured, Outcome, Pausing } from '@gantry/core/internal/runtimes/runtime'
import { pairMs } from '../pools/pool.ts'
import { channelsOf, launchedOf, spawnChild, spawnLauncher } from './launched.ts'

/**
 * Keeps one spare launcher that waits for its plan, because spawning one blocks this process for milliseconds. It is
 * started while a second sandbox in quick succession is created, and ended when none is requested.
 * - Ownership: a taken launcher belongs to the taker. The spare one ends with this process, because its channel closes.
 */
export interface Spares {
  /** The spare launcher; undefined when there is none. */
  take(): ChildProcess | undefined
  /** Ends the spare launcher; none is started after that. */
  close(): Promise<void>
}

export function createSpares(binary: string): Spares {
  let spare: { readonly child: ChildProcess; readonly timer: NodeJS.Timeout } | undefined
  let last = Number.NEGATIVE_INFINITY
  let closed = false

  const remove = (): ChildProcess | undefined => {
    const child = spare?.child
    clearTimeout(spare?.timer)
    spare = undefined
    return child
  }
  const start = (): void => {
    if (closed || spare !== undefined) return
    const child = trySpawn(binary)
    if (child === undefined) return
    spare = { child, timer: setTimeout(() => void hangUp(remove()), pairMs).unref() }
    child.once('exit', () => {
      if (spare?.child === child) remove()
    })
    for (const one of [child, ...channelsOf(child)]) {
      one.on('error', () => undefined)
      one.unref()
    }
  }
  return {
    take() {
      const now = performance.now()
      // Starts after the caller has sent its plan.
      if (now - last < pairMs) setImmediate(start)
      last = now
      return remove()
    },
    async close() {
      closed = true
      await hangUp(remove())
    },
  }
}

/** Ignores a failure; the next start tries again and reports it. */
function trySpawn(binary: string): ChildProcess | undefined {
  try {
    const child = spawnChild(binary)
    child.once('error', () => undefined)
    return child.pid === undefined ? undefined : child
  } catch {
    return undefined
  }
}

/** Ends a launcher without a plan, which exits when its channel closes. */
async function hangUp(child: ChildProcess | undefined): Promise<void> {
  if (child === undefined) return
  const gone = new Promise<void>((resolve) => child.once('close', () => resolve()))
  child.ref()
  for (const channel of channelsOf(child)) channel.destroy()
  await gone
}

/**
 * Starts the launcher with a plan. Resolves when the init inside is ready; with `early` at once, so that the first job is
 * sent while the sandbox is created.
 * - Cancellation: `signal` aborts only the start; what was started is removed first.
 * - Errors: SANDBOX_INIT_FAILED with the last message of bubblewrap or the launcher; nothing is left then. With `early`
 * the first run rejects with it.
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
  const leave = onAbort(signal, supervisor.kill)
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
    leave()
  }
}

function notStarted({ reason, message }: LaunchEnd, fault: Error | undefined, startMs: number): ToolError {
  const late = reason === 'killed' && fault === undefined ? `It was not ready after ${startMs} ms. ` : ''
  const said = fault?.message ?? message
  const why = said === undefined ? 'The launcher gave no reason.' : `The launcher said: ${said}`
  return new ToolError('SANDBOX_INIT_FAILED', `The sandbox did not start. ${late}${why}`)
}

export interface LaunchOptions {
  readonly signal: AbortSignal
  /** Time for the init to become ready. */
  readonly startMs: number
  /** Does not wait for the init. */
  readonly early?: boolean
  /** The frame that `start` is to send. A sandbox that takes it before it runs is not sent it again. */
  readonly ahead?: Buffer
  /** Source of spare launchers; a new launcher is started each time when absent. */
  readonly spares?: Spares
}

/**
 * One started sandbox: its supervisor outside and its init inside.
 * - Concurrency: one run at a time.
 * - Errors: see `run`. `start` and `relay` never fail directly; their failure shows in the next run.
 */
export interface Launched {
  /** Pid of the supervisor, the parent of the sandbox. */
  readonly pid: number
  /** Resolves when the supervisor has exited and everything removable is removed; never rejects. */
  readonly ended: Promise<LaunchEnd>
  /** As `Sandbox` has it. */
  memoryBytes?(): number | undefined
  /** As `Sandbox` has it. */
  readonly pausing?: Pausing
  /** As `Sandbox` has it. */
  kill?(): Promise<boolean>
  /** Starts a warm interpreter. The next run (every run, with `keep`) goes to it instead of to steps. */
  start(step: LaunchStep, options?: { readonly keep?: boolean }): void
  /** Listens on a port of the sandbox's own loopback and forwards each connection to a Unix socket inside. */
  relay(port: number, socket: string): void
  /**
   * Runs a job to its end.
   * - Cancellation: when `signal` aborts, everything in the sandbox is killed and this rejects with the reason.
   * - Errors: BACKEND_FAILED when the sandbox broke; whatever the program does is a RunEnd.
   */
  run(job: LaunchJob, options: RunOptions): Promise<RunEnd>
  /** Kills everything in the sandbox and waits until it is removed. Idempotent; never rejects. */
  dispose(): Promise<LaunchEnd>
}

/** A program with its environment; `argv[0]` without a slash is looked up in the PATH of `env`. */
export interface LaunchStep {
  readonly argv: readonly [string, ...string[]]
  readonly env: { readonly [name: string]: string }
  /** Absolute, or relative to the workspace; the workspace when absent. */
  readonly cwd?: string
  /** Set inside, by the kernel's names in lower case; only there does `nproc` count per user namespace. */
  readonly rlimits?: { readonly [name: string]: number }
}

export interface LaunchJob {
  /** Run in order until one exits with a code other than 0; absent for the interpreter started by `start`. */
  readonly steps?: readonly [LaunchStep, ...LaunchStep[]]
  /** By path relative to the workspace; written before the first step. */
  readonly files?: ReadonlyMap<string, Uint8Array | LaunchFile>
  /** For the last step, followed by end-of-file. A kept interpreter has no stdin: give it a file. */
  readonly stdin?: Uint8Array
  /** Written to the program's descriptor 3, followed by a newline. */
  readonly line?: string
  /**
   * Makes `{"done":true,"code":n,"token":…}` on descriptor 3 the end of an interpreter that is not kept, whose exit is then
   * not awaited; its CPU time and memory come from the plan's figures, not from `rusage`.
   */
  readonly token?: string
  /** Prefix, followed by a space, of lines on descriptor 3 that go to `onGateway`. */
  readonly gateway?: string
  readonly stdoutBytes: number
  readonly stderrBytes: number
  /** Limits of the files collected from the workspace, without `.gantry` and unchanged input files. */
  readonly collect?: { readonly files: number; readonly bytes: number }
  /** Limits that the init enforces by reading /proc, where no control group does. */
  readonly watch?: { readonly memoryBytes?: number; readonly pids?: number; readonly cpuMs?: number }
}

export interface LaunchFile {
  readonly bytes: Uint8Array
  /** 0o644 when absent. */
  readonly mode?: number
}

export interface RunOptions {
  /** Enforced by the supervisor, from the start of the run. */
  readonly wallMs: number
  readonly signal: AbortSignal
  /** Called in order, up to the stream's limit; must not throw. */
  readonly onOutput?: (stream: 'stdout' | 'stderr', bytes: Uint8Array) => void
  /** Called for each JSON line that the program wrote to descriptor 3; must not throw. */
  readonly onMessage?: (message: Json) => void
  /** Called once when descriptor 3 is flooded; nothing more is read from it. Must not throw. */
  readonly onFlood?: (error: ToolError) => void
  /**
   * Called for each gateway line of the job. `send` writes lines back until the run has ended, and returns the number of
   * bytes that are not yet sent. Must not throw.
   */
  readonly onGateway?: (line: string, send: (line: string) => number) => void
}

/** The result of a job. */
export interface RunEnd {
  /** `{ signal: 'SIGKILL' }` when a limit ended it; for a turn of a kept interpreter the code of its done line, or 0. */
  readonly exit: Outcome['exit']
  /** Index of the step that ended it, from 0. */
  readonly step: number
  readonly stdout: Captured
  readonly stderr: Captured
  /** JSON values of descriptor 3, at most 1 MiB; without the done line of a kept interpreter. */
  readonly messages: readonly Json[]
  /** Lines of descriptor 3 that were not JSON or above the limits. */
  readonly messagesDropped: number
  /** Members named `__proto__` that were left out of the messages. */
  readonly keysDropped: number
  readonly files: ReadonlyMap<string, Uint8Array>
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
  /** The limit that ended it, as far as the launcher knows; it does not know the disk limit. */
  readonly hit?: SandboxLimit
  /** Free space of the workspace at the end; absent when the run was aborted. */
  readonly free?: { readonly bytes: number; readonly files: number }
  /** The input file that could not be written, with the system's error code; nothing ran. */
  readonly unwritten?: { readonly path: string; readonly code: string }
  /** The plan's figures at the end, over all runs of the sandbox. */
  readonly figures: { readonly [name: string]: number }
  readonly wallMs: number
  /** Usage of the exited processes, by the kernel's accounting; absent when the run was aborted. */
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

/** Why a sandbox ended. */
export type EndReason = 'exited' | 'wall' | 'watch' | 'killed' | 'owner-gone' | 'start-failed'

/** The final report of the supervisor. */
export interface LaunchEnd {
  readonly reason: EndReason
  /** The limit that was reached, with `watch`. */
  readonly limit?: SandboxLimit
  /** The error, with `start-failed`, and the last message of bubblewrap. */
  readonly message?: string
  readonly figures: { readonly [name: string]: number }
  /** Limits whose figure had reached its threshold at the end. */
  readonly hits: readonly SandboxLimit[]
  readonly rusage?: Rusage
  /** Folders and control groups that could not be removed. */
  readonly left: readonly string[]
}

/**
 * Everything the launcher needs to start, watch and remove one sandbox. The launcher has no policy: it creates the
 * folders, writes the settings, joins, drops to the uid, executes, watches, kills, reads and removes what is named here.
 */
export interface LaunchPlan {
  /** Executed last: bubblewrap with its arguments, ending in the init. */
  readonly argv: readonly [string, ...string[]]
  /** A compiled filter for bubblewrap's `--seccomp 9`; the launcher opens it as descriptor 9. */
  readonly seccompFile?: string
  /** Uid and gid to drop to before executing; absent when this process is not root. */
  readonly uid?: number
  readonly gid?: number
  readonly cgroups: CgroupPlan
  /** By the kernel's names in lower case: `core`, `nofile`, `nproc`, `fsize`, `memlock`, `msgqueue`, `sigpending`. */
  readonly rlimits: { readonly [name: string]: number }
  /** Host folders of this sandbox, removed recursively at the end. */
  readonly folders: readonly string[]
  /** Removed recursively when the owner died: what it created for all of its sandboxes. */
  readonly orphans?: readonly string[]
  /** Limit on epoll registrations of the sandbox's programs; not counted when absent. */
  readonly epollWatches?: number
}

/** The control groups of one sandbox; empty where none can be created. */
export interface CgroupPlan {
  /** Created in this order, joined through their `cgroup.procs`, removed in reverse. */
  readonly folders: readonly string[]
  /** Folders to remove last if they are empty: those of an owner that died. */
  readonly parents?: readonly string[]
  /** Files to write before joining, `[path, text]`. */
  readonly settings: readonly (readonly [string, string])[]
  /** Writing 1 here kills the group; absent before Linux 5.14, where every pid in `cgroup.procs` is killed. */
  readonly killFile?: string
  /** Figures to read at the end; `key` names a line of a `key value` file and is absent for a plain number. */
  readonly figures: { readonly [name: string]: { readonly file: string; readonly key?: string } }
  /** Figures that end the run when they reach a threshold. */
  readonly watches: readonly {
    readonly limit: SandboxLimit
    readonly file: string
    readonly key?: string
    readonly atLeast: number
  }[]
}
