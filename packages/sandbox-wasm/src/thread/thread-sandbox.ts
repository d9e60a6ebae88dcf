import { randomBytes } from 'node:crypto'
import { type SandboxLimit, ToolError } from '@gantry/contract'
import { parseJson } from '@gantry/core/internal/json/parse'
import { follow, unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Outcome, Sandbox, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { ThreadJob, ThreadResult } from '../channel/messages.ts'
import { checkProgram, checkSpace, enforced } from '../guest/limits.ts'
import { createStreams, type Streams } from '../guest/streams.ts'
import { type Thread, ThreadLost, watchThread } from './thread.ts'
import type { ThreadPool } from './thread-pool.ts'

/**
 * A sandbox for scripts and WASI modules. It has no thread until it runs, so that an idle one costs nothing; a session
 * has its own thread from its first run on, because its interpreter lives there.
 */
export function createThreadSandbox(spec: SandboxSpec, threads: ThreadPool): Sandbox {
  const ended = Promise.withResolvers<void>()
  const session = spec.session === true
  let own: Thread | undefined
  let [used, gone] = [false, false]
  let running: { readonly stop: AbortController; readonly done: Promise<unknown> } | undefined

  const end = async (): Promise<void> => {
    gone = true
    running?.stop.abort(new ToolError('CANCELLED', 'The sandbox was disposed.'))
    await running?.done
    await own?.kill()
    ended.resolve()
  }
  const take = async ({ tenant }: SandboxJob, signal: AbortSignal): Promise<Thread> => {
    if (!session) return await threads.take(signal, tenant)
    own ??= await threads.own(signal)
    return own
  }
  const run = async (job: SandboxJob, signal: AbortSignal, stop: AbortController): Promise<Outcome> => {
    const thread = await take(job, signal)
    try {
      const streams = createStreams(job, spec.limits, (error) => stop.abort(error))
      return await runIn(thread, job, spec, streams, signal)
    } finally {
      if (!session) threads.give(thread)
      else if (!thread.alive) void end()
    }
  }
  return {
    id: randomBytes(9).toString('base64url'),
    ended: ended.promise,
    async run(job, signal) {
      checkProgram(job.program, spec)
      checkSpace(job, spec)
      if (gone || (used && !session)) throw new ToolError('INTERNAL', 'A sandbox runs one program only.')
      used = true
      const stop = new AbortController()
      const either = follow(signal, stop.signal)
      const result = run(job, either.signal, stop)
      running = { stop, done: result.catch(() => undefined) }
      try {
        return await result
      } finally {
        running = undefined
        either.leave()
      }
    },
    dispose: end,
  }
}

/** Runs one job in a thread. The thread is killed when the job is cancelled without quiescence, exceeds a limit or breaks. */
async function runIn(
  thread: Thread,
  job: SandboxJob,
  spec: SandboxSpec,
  streams: Streams,
  signal: AbortSignal,
): Promise<Outcome> {
  const started = performance.now()
  const watch = watchThread(thread, job.program.kind, spec.limits)
  try {
    const done = thread.run(threadJob(job, spec), streams.push, job.gateway)
    const result = await unlessAborted(Promise.race([done, watch.hit]), signal)
    const wallMs = performance.now() - started
    if (typeof result === 'string') return await overrun(thread, result, streams, wallMs)
    if (result.spent) await thread.kill()
    return outcomeOf(result, streams, wallMs)
  } catch (error) {
    const ended = signal.aborted && (await thread.stop())
    if (!ended) await thread.kill()
    signal.throwIfAborted()
    if (!(error instanceof ThreadLost)) throw error
    if (error.outOfMemory) return await overrun(thread, 'memoryBytes', streams, performance.now() - started)
    throw new ToolError('BACKEND_FAILED', 'The thread of the sandbox ended before its program.', { cause: error })
  } finally {
    watch.stop()
  }
}

function threadJob({ program, stdin, files, env, collect }: SandboxJob, spec: SandboxSpec): ThreadJob {
  if (program.kind !== 'code' && program.kind !== 'wasi')
    throw new ToolError('INTERNAL', 'The program was not checked.')
  return {
    program: program.kind === 'code' ? program : { ...program, argv: program.argv ?? ['main.wasm'] },
    limits: spec.limits,
    env: { HOME: '/work', TMPDIR: '/work', LANG: 'C.UTF-8', ...env },
    stdin: stdin ?? new Uint8Array(0),
    files: files ?? new Map(),
    collect,
    deterministic: spec.deterministic,
    session: spec.session === true,
  }
}

/** The outcome of a program that had to be killed. */
async function overrun(thread: Thread, hit: SandboxLimit, streams: Streams, wallMs: number): Promise<Outcome> {
  await thread.kill()
  return {
    exit: { signal: 'SIGKILL' },
    ...streams.kept(),
    files: new Map(),
    skipped: [],
    usage: { wallMs },
    enforced: enforced.thread,
    hit,
  }
}

function outcomeOf(result: ThreadResult, streams: Streams, wallMs: number): Outcome {
  const { exitCode, hit, totals, files, skipped, cpuMs, memoryPeakBytes, value, fault } = result
  streams.stdout.count(totals.stdout)
  streams.stderr.count(totals.stderr)
  const stopped = hit !== undefined && hit !== 'memoryBytes' && hit !== 'diskBytes'
  return {
    exit: stopped ? { signal: 'SIGKILL' } : { code: exitCode },
    ...streams.kept(),
    ...(value === undefined ? {} : { value: parseJson(value) }),
    ...(fault === undefined ? {} : { fault }),
    files,
    skipped,
    usage: { wallMs, cpuMs, memoryPeakBytes },
    enforced: enforced.thread,
    ...(hit === undefined ? {} : { hit }),
  }
}
