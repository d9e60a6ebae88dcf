import { setTimeout as sleep } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { type SandboxLimit, type SandboxLimits, ToolError } from '@gantry/contract'
import type { ProgramGateway, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import { createHostChannel, type RunningProgram } from '../channel/host-channel.ts'
import {
  type ChannelStart,
  type ThreadJob,
  type ThreadMessage,
  type ThreadResult,
  writeResponse,
  writeStop,
} from '../channel/messages.ts'
import { ownFile } from '../guest/own-files.ts'
import type { Stream } from '../guest/streams.ts'
import type { CompiledQuickjs } from '../quickjs/engine.ts'

/** The worker data of a thread. */
export interface ThreadStart extends ChannelStart {
  /** Absent when the thread has to compile QuickJS itself. */
  readonly quickjs?: CompiledQuickjs
}

/** Receives the output of a program while it runs. */
type ThreadListener = (stream: Stream, bytes: Uint8Array) => void

/** A thread that runs one job at a time; without a job it does not keep the process alive. */
export interface Thread {
  /** Resolves when it accepts jobs; rejects with SANDBOX_INIT_FAILED. */
  readonly ready: Promise<void>
  /** Resolves when the warm-up is complete or interrupted by a job, or the start failed; never rejects. */
  readonly practised: Promise<void>
  readonly ended: Promise<void>
  readonly alive: boolean
  /** Rejects with ThreadLost when the thread ended before the job. `gateway` lets the program make gateway requests. */
  run(job: ThreadJob, listener: ThreadListener, gateway?: ProgramGateway): Promise<ThreadResult>
  /** Asks a program with a gateway to end at quiescence; resolves to whether it did in time and the thread is reusable. */
  stop(): Promise<boolean>
  /** CPU time, also while it is busy. */
  cpuMs(): Promise<number>
  /** Kills it in any state; resolves when it has ended. */
  kill(): Promise<void>
}

/** The thread has ended, by its own fault or because it was killed. */
export class ThreadLost extends Error {
  /** Whether the heap of the thread was full. */
  readonly outOfMemory: boolean

  constructor(message: string, options: { readonly outOfMemory: boolean; readonly cause?: unknown }) {
    super(message, { cause: options.cause })
    this.outOfMemory = options.outOfMemory
  }
}

/** QuickJS and modules recurse on the thread's stack; the heap holds only messages and bookkeeping. */
const resourceLimits = { stackSizeMb: 16, maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 8 }

/** A quiescent program ends in a tenth of this; another one is killed. */
const stopMs = 20

interface Running extends RunningProgram {
  readonly listener: ThreadListener
  readonly run: number
  readonly done: Promise<ThreadResult | undefined>
  readonly resolve: (result: ThreadResult) => void
  readonly reject: (error: unknown) => void
}

/** Of the environment a thread gets only Node's compile cache, which shortens its start. */
function threadEnvironment(): NodeJS.ProcessEnv {
  const { NODE_COMPILE_CACHE } = process.env
  return NODE_COMPILE_CACHE === undefined ? {} : { NODE_COMPILE_CACHE }
}

/** With `quickjs` it need not compile the interpreter. */
export function startThread(quickjs?: CompiledQuickjs): Thread {
  const post = createHostChannel(() => running)
  const worker = new Worker(ownFile('thread/worker'), {
    workerData: (quickjs === undefined ? post.start : { ...post.start, quickjs }) satisfies ThreadStart,
    transferList: [post.start.port],
    env: threadEnvironment(),
    execArgv: ['--disable-warning=ExperimentalWarning'],
    resourceLimits,
    stdin: false,
    stdout: true,
    stderr: true,
    trackUnmanagedFds: true,
  })
  const ready = Promise.withResolvers<void>()
  const practised = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<void>()
  let running: Running | undefined
  let alive = true
  let runs = 0

  const settle = (end: (job: Running) => void): void => {
    const job = running
    running = undefined
    worker.unref()
    if (job !== undefined) end(job)
  }
  const lose = (cause?: unknown): void => {
    alive = false
    const outOfMemory = cause instanceof Error && 'code' in cause && cause.code === 'ERR_WORKER_OUT_OF_MEMORY'
    const lost = new ThreadLost('The thread ended.', { outOfMemory, cause })
    practised.resolve()
    ready.reject(new ToolError('SANDBOX_INIT_FAILED', 'The thread of the sandbox did not start.', { cause: lost }))
    settle((job) => job.reject(lost))
  }
  worker.on('message', (message: ThreadMessage | string) => {
    if (typeof message === 'string') return post.collect()
    if (message.kind === 'ready') return ready.resolve()
    if (message.kind === 'practised') return practised.resolve()
    if (message.kind === 'broken') {
      lose(new Error(message.reason))
      return void worker.terminate()
    }
    for (const { stream, bytes } of message.pieces) running?.listener(stream, bytes)
    if (message.kind !== 'done') return
    // The thread makes no more requests by now; what is left in the mailbox is not for the next program.
    post.forget()
    settle((job) => job.resolve(message.result))
  })
  worker.on('error', lose)
  worker.on('exit', () => {
    lose()
    post.close()
    ended.resolve()
  })
  // Nothing is expected there; unread output would be buffered without bound.
  worker.stdout.resume()
  worker.stderr.resume()
  ready.promise.then(
    () => worker.unref(),
    () => undefined,
  )
  return {
    ready: ready.promise,
    practised: practised.promise,
    ended: ended.promise,
    get alive() {
      return alive
    },
    run(job, listener, gateway) {
      const { promise, resolve, reject } = Promise.withResolvers<ThreadResult>()
      runs += 1
      const run = runs
      const answer = (given: ProgramResponse): void => {
        if (running?.answer !== answer) return
        running.given += 1
        post.deliver(writeResponse(run, given))
      }
      running = {
        listener,
        gateway,
        answer,
        fail: reject,
        run,
        asked: 0,
        given: 0,
        delivered: -1,
        held: [],
        heldBytes: 0,
        done: promise.catch(() => undefined),
        resolve,
        reject,
      }
      worker.ref()
      worker.postMessage(gateway === undefined ? job : { ...job, gateway: run })
      return promise
    },
    async stop() {
      if (running?.gateway === undefined) return false
      const { run, done } = running
      post.deliver(writeStop(run))
      const result = await Promise.race([done, sleep(stopMs, undefined, { ref: false })])
      return result?.spent === false
    },
    async cpuMs() {
      const { user, system } = await worker.cpuUsage()
      return (user + system) / 1_000
    },
    async kill() {
      alive = false
      await worker.terminate()
      await ended.promise
    },
  }
}

/** Watches the limits of a program from outside, where the program cannot delay it. */
interface ThreadWatch {
  /** Resolves with the limit that was reached; pending otherwise. */
  readonly hit: Promise<SandboxLimit>
  stop(): void
}

/** QuickJS checks the time itself and ends in order; this margin is for a long native call, in which it cannot. */
const graceMs = 250
const pollMs = 25

export function watchThread(
  thread: Thread,
  kind: string,
  { wallMs, cpuMs }: Pick<SandboxLimits, 'wallMs' | 'cpuMs'>,
): ThreadWatch {
  const { promise: hit, resolve } = Promise.withResolvers<SandboxLimit>()
  const grace = kind === 'code' ? graceMs : 0
  const wall = setTimeout(() => resolve('wallMs'), wallMs + grace)
  // A thread cannot use more CPU time than wall time.
  const watched = cpuMs < wallMs
  const before = watched ? thread.cpuMs().catch(() => 0) : 0
  let stopped = false
  const poll = async (): Promise<void> => {
    const used = await thread.cpuMs().catch(() => 0)
    if (used - (await before) >= cpuMs + grace) resolve('cpuMs')
    else if (!stopped) timer = setTimeout(() => void poll(), pollMs)
  }
  let timer = watched ? setTimeout(() => void poll(), cpuMs + grace) : undefined
  return {
    hit,
    stop() {
      clearTimeout(wall)
      clearTimeout(timer)
      stopped = true
    },
  }
}
