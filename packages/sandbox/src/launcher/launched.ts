import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { ToolError } from '@gantry/contract'
import { connectInit, type InitLink } from './init.ts'
import type { LaunchEnd, Launched, LaunchJob, LaunchPlan, RunEnd, RunOptions } from './launcher.ts'
import { FrameError, jobPieces, planFrame } from './protocol.ts'
import { createRunIntake, type RunIntake } from './run-intake.ts'
import { connectSupervisor, type Figures, type SupervisorLink } from './supervisor.ts'

/** A started launcher as its users see it; `failure` says why one did not come to be ready. */
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
        /* A sandbox that cannot run again ends by itself soon. */
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
 * One run from its beginning to its end. It ends in one of three ways: the init says how the program ended, and the
 * supervisor adds its figures; the sandbox ends first, by a limit or by itself; the signal aborts, and the sandbox is killed.
 * An interpreter that says itself how it ends, by the job's token, has both asked at once, and is not waited for.
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
  signal.addEventListener('abort', supervisor.kill, { once: true })
  try {
    init.go(pieces, intake, finished.resolve)
    // The program's time begins with the program, not with the making of its sandbox.
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
    /* It went down with its sandbox, to a limit. */
    const exit = { signal: 'SIGKILL' }
    return { ...intake.received(), exit, step: 0, alive: false, hit, figures: end.figures, wallMs: elapsedMs }
  } finally {
    signal.removeEventListener('abort', supervisor.kill)
  }
}

/** The run of a program that ended by itself, or was ended by the init. */
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

/** The sandbox ended, and no limit was the reason. */
function broken({ message }: LaunchEnd, fault: Error | undefined): ToolError {
  const said = fault?.message ?? message ?? 'No reason was given.'
  const cause = fault === undefined ? {} : { cause: fault }
  return new ToolError('BACKEND_FAILED', `The sandbox broke while the program ran. ${said}`, cause)
}

/** The launcher as a process, with both its channels. */
interface LauncherProcess {
  readonly pid: number
  readonly supervisor: SupervisorLink
  readonly init: InitLink
  /** Whether it keeps Node alive: while something is awaited of it, not while it waits for us. */
  hold(on: boolean): void
}

/**
 * Sends the plan to the launcher that waits, or else to a new one; rejects when no process can be started, all else
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

/** Our ends of the channels to the init and to the supervisor. */
export function channelsOf(child: ChildProcess): [init: Socket, supervisor: Socket] {
  const [, , , init, supervisor] = child.stdio as unknown as [null, null, null, Socket, Socket]
  return [init, supervisor]
}

/** A launcher that waits for its plan; throws, or has no `pid` and says why as an event, when none can be started. */
export function spawnChild(binary: string): ChildProcess {
  const stdio: StdioOptions = ['ignore', 'ignore', 'ignore', 'pipe', 'pipe']
  return spawn(binary, ['supervise'], { stdio, env: {}, cwd: '/' })
}

/** Without a descriptor or process to spare there is not even a stdio, and the reason comes as an event. */
async function spawned(binary: string): Promise<ChildProcess> {
  try {
    const child = spawnChild(binary)
    if (child.pid === undefined) await once(child, 'spawn')
    return child
  } catch (cause) {
    throw new ToolError('SANDBOX_INIT_FAILED', `The sandbox did not start: ${binary} cannot be run.`, { cause })
  }
}
