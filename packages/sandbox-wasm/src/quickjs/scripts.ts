import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import { createOutlet, type GuestChannel, type Outlet } from '../channel/guest-channel.ts'
import type { ThreadJob, ThreadResult } from '../channel/messages.ts'
import { collect, createWorkspace, layOut, type Workspace } from '../guest/workspace.ts'
import { type CompiledQuickjs, type GuestClock, installClock, loadEngines } from './engine.ts'
import { failWith, finish, type LooseImports, loadLooseImports, type Started, start } from './evaluate.ts'
import { runGatewayProgram, startProgram } from './gateway-program.ts'
import { createGuest, type Guest } from './guest.ts'
import { createRun, notJson, type Run } from './run.ts'

/** Runs scripts in QuickJS, each in a fresh context; the next context is prepared while the thread is idle. */
export interface Scripts {
  /** `line` is for a program with a gateway. */
  run(job: CodeJob, outlet: Outlet, line?: GuestChannel): Promise<ThreadResult>
  /** Prepares the context of the next run. */
  prepare(): Promise<void>
}

/** The state of a session between its runs. */
interface Kept {
  readonly guest: Guest
  readonly workspace: Workspace
}

export async function loadScripts(quickjs?: CompiledQuickjs): Promise<Scripts> {
  const clock = installClock()
  const [freshEngine, loose] = await Promise.all([loadEngines(quickjs), loadLooseImports()])
  /** Ready for a program. */
  let ready: Guest | undefined
  /** Used by a program. */
  let used: Guest | undefined
  let kept: Kept | undefined
  /** After a program with a gateway another one is likely, so its API is prepared too. */
  let overTools = false

  const fresh = async (): Promise<Guest> => createGuest(await freshEngine())
  /** A context with a gateway API is only for programs with a gateway. */
  const fit = (guest: Guest | undefined): Guest | undefined =>
    guest === undefined || overTools || !guest.opened || guest.reset() ? guest : undefined
  const take = async ({ limits, gateway }: ThreadJob): Promise<Kept> => {
    overTools = gateway !== undefined
    const guest = fit(ready) ?? (await fresh())
    ready = undefined
    return { guest, workspace: createWorkspace(limits.diskBytes, Date.now) }
  }
  return {
    async run(job, outlet, line) {
      const { guest, workspace } = kept ?? (await take(job))
      kept = job.session ? { guest, workspace } : undefined
      const result = await runScript(job, guest, workspace, { outlet, clock, loose, line })
      if (!job.session && !result.spent) used = guest
      return result
    },
    async prepare() {
      if (kept !== undefined) return
      if (used?.reset()) ready ??= used
      used = undefined
      ready ??= await fresh()
      if (overTools) ready.open()
    },
  }
}

export type CodeJob = ThreadJob & { readonly program: { readonly kind: 'code' } }

/** The parts of its thread that a run uses. */
export interface RunTools {
  readonly outlet: Outlet
  readonly clock: GuestClock
  readonly loose: LooseImports
  /** For a program with a gateway. */
  readonly line: GuestChannel | undefined
}

/** The exit code and warning of Node for an unsettled await. */
const unsettled = { code: 13, text: 'Warning: Detected unsettled top-level await\n' }

/**
 * Runs one script until its promise is settled and no timer is pending, it exits, an error is uncaught, or a limit
 * is reached, whichever comes first. None of its code runs after that.
 */
export async function runScript(
  job: CodeJob,
  guest: Guest,
  workspace: Workspace,
  tools: RunTools,
): Promise<ThreadResult> {
  const run = createRun(job, workspace, tools)
  const spent = await contained(guest, run, async () => {
    layOut(workspace, job.files)
    begin(job, guest, run, tools)
    if (run.over) return
    if (tools.line !== undefined) return runProgram(job, guest, run, tools.line, tools.clock)
    const started = start(job, guest, run, tools.loose)
    if (started !== undefined) await settle(started, guest, run)
  })
  guest.reach(undefined)
  tools.clock.end()
  const { files, skipped } = collect(workspace, job.collect)
  return { ...run.result(), files, skipped, memoryPeakBytes: guest.engine.memory.buffer.byteLength, spent }
}

/** A program with a gateway has one form, and makes requests while it runs. */
function runProgram(job: CodeJob, guest: Guest, run: Run, line: GuestChannel, clock: GuestClock): void {
  const promise = startProgram(job.program, guest, run)
  if (promise !== undefined) runGatewayProgram(promise, guest, run, line, clock)
}

/** Runs work and returns whether the interpreter itself crashed and must be discarded. */
async function contained({ engine }: Guest, run: Run, work: () => Promise<void>): Promise<boolean> {
  try {
    await work()
    return false
  } catch (error) {
    const said = error instanceof Error ? `${error.name}: ${error.message}` : 'The interpreter failed.'
    run.fail(said, engine.refused)
    return true
  }
}

/** Sets up the context for this program: limits, clock, environment and input. */
function begin(job: CodeJob, guest: Guest, run: Run, { clock }: RunTools): void {
  const { context } = guest
  guest.limit(job.limits.memoryBytes)
  clock.begin(job.deterministic)
  guest.reach(run.host)
  // Always first, because it may have been done long before.
  if (job.gateway !== undefined) guest.open()
  const words = new Uint32Array(4)
  run.host.random(new Uint8Array(words.buffer))
  const seed = [...words].map((word) => context.newNumber(word))
  const begun = guest.call('begin', context.newString(JSON.stringify(job.env)), ...seed)
  if (begun.error !== undefined) failWith(guest, run, begun.error)
}

/** Runs jobs and timers until the program has ended. */
async function settle(started: Started, guest: Guest, run: Run): Promise<void> {
  const { context, call } = guest
  while (!run.over) {
    drain(guest, run, (error) => failWith(guest, run, error))
    const state = context.getPromiseState(started.promise)
    if (run.over) return
    if (state.type === 'rejected') return failWith(guest, run, state.error)
    const timer = run.timers.next()
    if (timer === undefined) {
      if (state.type === 'fulfilled') return end(started, state.value, guest, run)
      // Without memory for a promise job QuickJS drops the job silently.
      if (guest.engine.refused) return run.fail('InternalError: out of memory', true)
      run.end(unsettled.code)
      return run.complain(unsettled.text)
    }
    await run.until(timer.due, sleep)
    if (run.over) return
    run.timers.clear(timer.id)
    const fired = call('fire', context.newNumber(timer.id))
    if (fired.error !== undefined) return failWith(guest, run, fired.error)
  }
}

/** Reads the value and ends with the program's exit code. */
function end(started: Started, value: QuickJSHandle, guest: Guest, run: Run): void {
  const { exitCode, text, fault } = finish(guest, started, value)
  if (run.over) return
  if (text !== undefined) run.value(text)
  else if (fault !== undefined) run.complain(notJson(fault))
  run.end(exitCode)
}

const jobsAtOnce = 1_000

/** Runs promise jobs, whose number may be unbounded. */
export function drain(guest: Guest, run: Run, fail: (error: QuickJSHandle) => void): void {
  const { runtime } = guest.context
  while (!run.over && runtime.hasPendingJob()) {
    const done = runtime.executePendingJobs(jobsAtOnce)
    if (done.error !== undefined && !run.over) fail(done.error)
    run.host.interrupt()
  }
}

/** After this many rounds the code of interpreter and thread is optimized and runs in a hundredth of the first time. */
const rounds = 16

const program = { kind: 'code', language: 'javascript', code: 'return [6 * 7].map(String)' } as const
const limits = { wallMs: 1_000, cpuMs: 1_000, memoryBytes: 16_777_216, pids: 1, diskBytes: 65_536 }
const streams = { stdoutBytes: 1_024, stderrBytes: 1_024 }
const job: CodeJob = {
  program,
  limits: { ...limits, ...streams },
  env: {},
  stdin: new Uint8Array(0),
  files: new Map(),
  collect: undefined,
  deterministic: undefined,
  session: false,
}

/**
 * Runs a small program repeatedly, each time in a fresh context, so that the first program of a caller does not wait for
 * the JIT compiler. Stops when a job arrives. Its output is discarded.
 */
export async function warmUp(scripts: Scripts, now: () => number, isAsked: () => boolean): Promise<void> {
  for (let round = 0; round < rounds; round += 1) {
    await turn()
    if (isAsked()) return
    await scripts.run(
      job,
      createOutlet(streams, () => undefined, now),
    )
    await scripts.prepare()
  }
}
