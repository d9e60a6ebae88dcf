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

/** What a worker thread is started with. */
export interface ThreadStart extends ChannelStart {
  /** Absent when the thread has to compile QuickJS itself. */
  readonly quickjs?: CompiledQuickjs
}

/** Hears what a program writes while it runs. */
type ThreadListener = (stream: Stream, bytes: Uint8Array) => void

/** A thread that runs one job at a time; without a job it does not keep the process alive. */
export interface Thread {
  /** Resolves when it can take jobs; rejects with SANDBOX_INIT_FAILED. */
  readonly ready: Promise<void>
  /** Resolves when it has run enough to be fast, or is asked for something, or will never be ready; does not reject. */
  readonly practised: Promise<void>
  readonly ended: Promise<void>
  readonly alive: boolean
  /** Rejects with ThreadLost when the thread ended before the job. A gateway makes it a program over tools. */
  run(job: ThreadJob, listener: ThreadListener, gateway?: ProgramGateway): Promise<ThreadResult>
  /** Asks a program over tools to end where it rests; whether it has, within a moment, and the thread is fit for another. */
  stop(): Promise<boolean>
  /** Time on a processor, also while it is busy. */
  cpuMs(): Promise<number>
  /** Ends it at once, whatever it does; resolves when it is gone. */
  kill(): Promise<void>
}

/** The thread is gone, by its own fault or because it was killed. */
export class ThreadLost extends Error {
  /** Whether the heap of the thread was full. */
  readonly outOfMemory: boolean

  constructor(message: string, options: { readonly outOfMemory: boolean; readonly cause?: unknown }) {
    super(message, { cause: options.cause })
    this.outOfMemory = options.outOfMemory
  }
}

/** QuickJS and modules recurse on the thread's stack; what is on the heap is what crosses over, and the bookkeeping. */
const resourceLimits = { stackSizeMb: 16, maxOldGenerationSizeMb: 512, maxYoungGenerationSizeMb: 8 }

/** A program that rests ends in a tenth of this; one that does not is killed. */
const stopMs = 20

interface Running extends RunningProgram {
  readonly listener: ThreadListener
  readonly run: number
  readonly done: Promise<ThreadResult | undefined>
  readonly resolve: (result: ThreadResult) => void
  readonly reject: (error: unknown) => void
}

/** With `quickjs` it need not compile the interpreter. */
export function startThread(quickjs?: CompiledQuickjs): Thread {
  const post = createHostChannel(() => running)
  const worker = new Worker(ownFile('thread/worker'), {
    workerData: (quickjs === undefined ? post.start : { ...post.start, quickjs }) satisfies ThreadStart,
    transferList: [post.start.port],
    env: {},
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
    // The thread has asked all that it will by now; what of it still lies there is not the next program's.
    post.forget()
    settle((job) => job.resolve(message.result))
  })
  worker.on('error', lose)
  worker.on('exit', () => {
    lose()
    post.close()
    ended.resolve()
  })
  // Nothing is to be read there; unread, it would be kept for ever.
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
        post.tell(writeResponse(run, given))
      }
      running = {
        listener,
        gateway,
        answer,
        fail: reject,
        run,
        asked: 0,
        given: 0,
        told: -1,
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
      post.tell(writeStop(run))
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

/** Waits for a program to overrun its time, from outside, where nothing that the program does holds it up. */
interface ThreadWatch {
  /** Resolves with the limit that was reached; never, when none is. */
  readonly hit: Promise<SandboxLimit>
  stop(): void
}

/** QuickJS looks at the time itself and ends in good order; this is for when it cannot, in a long call of its own. */
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
  // A thread cannot use more of a processor than time passes.
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
