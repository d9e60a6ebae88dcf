import { setTimeout as sleep } from 'node:timers/promises'
import type { QuickJSHandle } from 'quickjs-emscripten-core'
import type { GuestChannel } from '../channel/guest-channel.ts'
import type { ThreadJob, ThreadResult } from '../channel/messages.ts'
import type { Outlet } from '../channel/outlet.ts'
import { collect, createWorkspace, layOut, type Workspace } from '../guest/workspace.ts'
import { type GuestClock, installClock } from './clock.ts'
import { type CompiledQuickjs, loadEngines } from './engine.ts'
import { failWith, finish, type LooseImports, loadLooseImports, type Started, start } from './evaluate.ts'
import { runGatewayProgram, startProgram } from './gateway-program.ts'
import { createGuest, type Guest } from './guest.ts'
import { createRun, notJson, type Run } from './run.ts'

/** Runs scripts in QuickJS, each in a context as it was made; the next is made ready while nothing else is to be done. */
export interface Scripts {
  /** `line` is for a program over tools. */
  run(job: CodeJob, outlet: Outlet, line?: GuestChannel): Promise<ThreadResult>
  /** Makes the context for the next run. */
  prepare(): Promise<void>
}

/** What a session keeps between its runs. */
interface Kept {
  readonly guest: Guest
  readonly workspace: Workspace
}

export async function loadScripts(quickjs?: CompiledQuickjs): Promise<Scripts> {
  const clock = installClock()
  const [freshEngine, loose] = await Promise.all([loadEngines(quickjs), loadLooseImports()])
  /** Fit for a program. */
  let ready: Guest | undefined
  /** Has had one. */
  let used: Guest | undefined
  let kept: Kept | undefined
  /** Who ran a program over tools runs another soon; what it needs is then made ready too. */
  let overTools = false

  const fresh = async (): Promise<Guest> => createGuest(await freshEngine())
  /** What belongs to a program over tools is not for others. */
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

/** What a run uses of its thread. */
export interface RunTools {
  readonly outlet: Outlet
  readonly clock: GuestClock
  readonly loose: LooseImports
  /** Of a program over tools. */
  readonly line: GuestChannel | undefined
}

/** As Node says of a program whose end never comes. */
const unsettled = { code: 13, text: 'Warning: Detected unsettled top-level await\n' }

/**
 * Runs one script to its end: its promise is settled and no timer waits, it exits, an error is not caught, or a limit is
 * reached; whichever comes first. What it still had in mind after that does not happen.
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

/** A program over tools has one form, and asks while it runs. */
function runProgram(job: CodeJob, guest: Guest, run: Run, line: GuestChannel, clock: GuestClock): void {
  const promise = startProgram(job.program, guest, run)
  if (promise !== undefined) runGatewayProgram(promise, guest, run, line, clock)
}

/** Does work; whether the interpreter itself fell over it, which then is not to be used again. */
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

/** Makes the context that of this program: its limits, its clock, its environment and its input. */
function begin(job: CodeJob, guest: Guest, run: Run, { clock }: RunTools): void {
  const { context } = guest
  guest.limit(job.limits.memoryBytes)
  clock.begin(job.deterministic)
  guest.reach(run.host)
  // Always before the rest, because it may have been done long before.
  if (job.gateway !== undefined) guest.open()
  const words = new Uint32Array(4)
  run.host.random(new Uint8Array(words.buffer))
  const seed = [...words].map((word) => context.newNumber(word))
  const begun = guest.call('begin', context.newString(JSON.stringify(job.env)), ...seed)
  if (begun.error !== undefined) failWith(guest, run, begun.error)
}

/** Runs what is left to run until the program has ended. */
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
      // Where there was no memory for a promise job, QuickJS lost it without a word.
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

/** Takes the value out and ends with the code that the program set. */
function end(started: Started, value: QuickJSHandle, guest: Guest, run: Run): void {
  const { exitCode, text, fault } = finish(guest, started, value)
  if (run.over) return
  if (text !== undefined) run.value(text)
  else if (fault !== undefined) run.complain(notJson(fault))
  run.end(exitCode)
}

const jobsAtOnce = 1_000

/** Does what promises wait for, which can be without end. */
export function drain(guest: Guest, run: Run, fail: (error: QuickJSHandle) => void): void {
  const { runtime } = guest.context
  while (!run.over && runtime.hasPendingJob()) {
    const done = runtime.executePendingJobs(jobsAtOnce)
    if (done.error !== undefined && !run.over) fail(done.error)
    run.host.interrupt()
  }
}
