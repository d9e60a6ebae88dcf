import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Socket } from 'node:net'
import { ToolError } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { connectInit, type InitLink } from './init.ts'
import type { LaunchEnd, Launched, LaunchJob, LaunchPlan, RunEnd, RunOptions } from './launcher.ts'
import { FrameError, jobPieces, planFrame } from './protocol.ts'
import { createRunIntake, type RunIntake } from './run-intake.ts'
import { connectSupervisor, type Figures, type SupervisorLink } from './supervisor.ts'

/** Wraps a started launcher; `failure` returns why it did not become ready. */
export function launchedOf(launcher: LauncherProcess, failure: () => Promise<ToolError>): Launched {
  const { supervisor, init } = launcher
  let kept = false
  let running = false
  launcher.hold(false)
  return {
    pid: launcher.pid,
    ended: supervisor.ended,
    start(step, { keep = false } = {}) {
      kept = keep
      init.start(step, keep)
    },
    relay: init.relay,
    async run(job, options) {
      if (running) throw new ToolError('INTERNAL', 'A sandbox runs one program at a time.')
      options.signal.throwIfAborted()
      const pieces = piecesOf(job)
      running = true
      launcher.hold(true)
      try {
        const end = await runJob(launcher, job, pieces, options, kept, failure)
        // A sandbox that cannot run again ends soon by itself.
        if (end.alive) launcher.hold(false)
        return end
      } finally {
        running = false
      }
    },
    async dispose() {
      launcher.hold(true)
      supervisor.kill()
      return supervisor.ended
    },
  }
}

function piecesOf(job: LaunchJob): Uint8Array[] {
  try {
    return jobPieces(job)
  } catch (cause) {
    if (!(cause instanceof FrameError)) throw cause
    const message = 'The program, its arguments or its environment are longer than 1 MiB or hold a NUL.'
    throw new ToolError('INPUT_INVALID', message, { cause })
  }
}

/**
 * Runs one job. It ends in one of three ways: the init reports the exit and the supervisor adds its figures; the sandbox
 * ends first, by a limit or by itself; or the signal aborts and the sandbox is killed. An interpreter that reports its
 * own end with the job's token is not waited for: init and supervisor are asked at once.
 */
async function runJob(
  { supervisor, init }: LauncherProcess,
  job: LaunchJob,
  pieces: readonly Uint8Array[],
  options: RunOptions,
  kept: boolean,
  failure: () => Promise<ToolError>,
): Promise<RunEnd> {
  const { signal, wallMs } = options
  const started = performance.now()
  const finished = Promise.withResolvers<void>()
  let looked: Promise<Figures> | undefined
  const saysBye = !kept && job.token !== undefined
  const bye = (code: number): void => {
    init.finish(code)
    looked = supervisor.look()
  }
  const intake = createRunIntake(job, options, kept ? init.finish : saysBye ? bye : undefined, init.line)
  const leave = onAbort(signal, supervisor.kill)
  try {
    init.go(pieces, intake, finished.resolve)
    // The wall clock starts with the program, not with the creation of its sandbox.
    if (init.isReady()) supervisor.begin(wallMs)
    else void init.ready.then(() => supervisor.begin(wallMs))
    if (!kept && !saysBye && job.gateway === undefined) init.hangUp()
    await Promise.race([finished.promise, Promise.all([supervisor.end, init.closed])])
    const elapsedMs = performance.now() - started
    if (intake.end !== undefined && !signal.aborted) {
      if (!kept) init.hangUp()
      return endOf(intake, await (looked ?? supervisor.measure()), elapsedMs, kept)
    }
    const end = await supervisor.end
    signal.throwIfAborted()
    if (!init.isReady()) throw await failure()
    const hit = end.reason === 'wall' ? 'wallMs' : (end.limit ?? end.hits[0])
    if (hit === undefined || init.fault() !== undefined) throw broken(await supervisor.ended, init.fault())
    // The program was killed with its sandbox, by a limit.
    const exit = { signal: 'SIGKILL' }
    return { ...intake.received(), exit, step: 0, alive: false, hit, figures: end.figures, wallMs: elapsedMs }
  } finally {
    leave()
  }
}

/** The end of a run whose program exited or was ended by the init. */
function endOf(intake: RunIntake, { figures, hits }: Figures, wallMs: number, kept: boolean): RunEnd {
  const { end } = intake
  const base = { ...intake.received(), figures, wallMs }
  if (end === undefined || end.kind === 'unwritten') {
    const unwritten = end && { path: end.path, code: end.code }
    return { ...base, exit: { code: 126 }, step: 0, alive: kept, ...(unwritten && { unwritten }) }
  }
  const { kind, exit, step, free, rusage } = end
  const hit = hits[0] ?? end.hit
  return {
    ...base,
    exit,
    step,
    alive: kind === 'turn',
    ...(free && { free }),
    ...(rusage && { rusage }),
    ...(hit && { hit }),
  }
}

/** The error of a sandbox that ended without reaching a limit. */
function broken({ message }: LaunchEnd, fault: Error | undefined): ToolError {
  const said = fault?.message ?? message ?? 'No reason was given.'
  const cause = fault === undefined ? {} : { cause: fault }
  return new ToolError('BACKEND_FAILED', `The sandbox broke while the program ran. ${said}`, cause)
}

/** The launcher as a process, with both its channels. */
export interface LauncherProcess {
  readonly pid: number
  readonly supervisor: SupervisorLink
  readonly init: InitLink
  /** Whether the launcher keeps Node alive: while a result is awaited, not while it is idle. */
  hold(on: boolean): void
}

/**
 * Sends the plan to the spare launcher, or else to a new one. Rejects when no process can be started; every other failure
 * shows in `ended`.
 */
export async function spawnLauncher(
  binary: string,
  plan: LaunchPlan,
  take?: () => ChildProcess | undefined,
): Promise<LauncherProcess> {
  const frame = planFrame(plan)
  const child = take?.() ?? (await spawned(binary))
  const [initSocket, supervisorSocket] = channelsOf(child)
  const supervisor = connectSupervisor(child, supervisorSocket, plan)
  supervisorSocket.write(frame)
  const init = connectInit(initSocket, supervisor.kill)
  const held = [child, initSocket, supervisorSocket]
  return {
    pid: child.pid ?? 0,
    supervisor,
    init,
    hold(on) {
      for (const one of held) on ? one.ref() : one.unref()
    },
  }
}

/** The host's ends of the channels to the init and to the supervisor. */
export function channelsOf(child: ChildProcess): [init: Socket, supervisor: Socket] {
  const [, , , init, supervisor] = child.stdio
  if (init instanceof Socket && supervisor instanceof Socket) return [init, supervisor]
  throw new ToolError('SANDBOX_INIT_FAILED', 'The launcher has no channels.')
}

/** A launcher that waits for its plan. Throws, or has no `pid` and emits an error, when it cannot be started. */
export function spawnChild(binary: string): ChildProcess {
  const stdio: StdioOptions = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']
  return spawn(binary, ['supervise'], { stdio, env: {}, cwd: '/' })
}

/** Without free descriptors or processes the child has no stdio, and the reason arrives as an event. */
async function spawned(binary: string): Promise<ChildProcess> {
  try {
    const child = spawnChild(binary)
    if (child.pid === undefined) await once(child, 'spawn')
    return child
  } catch (cause) {
    throw new ToolError('SANDBOX_INIT_FAILED', `The sandbox did not start: ${binary} cannot be run.`, { cause })
  }
}
