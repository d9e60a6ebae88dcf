import { Worker } from 'node:worker_threads'
import { ToolError } from '@gantry/contract'
import { ownFile } from '../own-files.ts'
import type { Stream, ThreadJob, ThreadMessage, ThreadResult } from './job.ts'

/** Hears what a program writes while it runs. */
export type ThreadListener = (stream: Stream, bytes: Uint8Array) => void

/** A thread that runs one job at a time; without a job it does not keep the process alive. */
export interface Thread {
  /** Resolves when it can take jobs; rejects with SANDBOX_INIT_FAILED. */
  readonly ready: Promise<void>
  /** Resolves when it has run enough to be fast, or is asked for something, or will never be ready; does not reject. */
  readonly practised: Promise<void>
  readonly ended: Promise<void>
  readonly alive: boolean
  /** Rejects with ThreadLost when the thread ended before the job. */
  run(job: ThreadJob, listener: ThreadListener): Promise<ThreadResult>
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

interface Running {
  readonly listener: ThreadListener
  readonly resolve: (result: ThreadResult) => void
  readonly reject: (error: unknown) => void
}

export function startThread(): Thread {
  const worker = new Worker(ownFile('thread/worker'), {
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
  worker.on('message', (message: ThreadMessage) => {
    if (message.kind === 'ready') return ready.resolve()
    if (message.kind === 'practised') return practised.resolve()
    if (message.kind === 'broken') {
      lose(new Error(message.reason))
      return void worker.terminate()
    }
    for (const { stream, bytes } of message.pieces) running?.listener(stream, bytes)
    if (message.kind === 'done') settle((job) => job.resolve(message.result))
  })
  worker.on('error', lose)
  worker.on('exit', () => {
    lose()
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
    run(job, listener) {
      const { promise, resolve, reject } = Promise.withResolvers<ThreadResult>()
      running = { listener, resolve, reject }
      worker.ref()
      worker.postMessage(job)
      return promise
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
