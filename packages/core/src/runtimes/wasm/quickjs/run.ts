import type { SandboxLimit } from '@gantry/contract'
import { parseJson } from '../../../json/parse.ts'
import { createRandom } from '../random.ts'
import type { Stream, ThreadResult } from '../thread/job.ts'
import type { Workspace } from '../workspace.ts'
import { callFile } from './files.ts'
import type { GuestHost } from './guest.ts'
import type { CodeJob, RunTools } from './run-script.ts'
import { createTimers, type Timers } from './timers.ts'

/** One run of a program: what it reaches, and whether and how it has ended. The first end counts. */
export interface Run {
  readonly host: GuestHost
  readonly timers: Timers
  readonly over: boolean
  end(exitCode: number): void
  /** Ends with an error, which is printed; after memory was refused, that is what ended it. */
  fail(text: string, refusedMemory: boolean): void
  complain(text: string): void
  value(text: string): void
  /** Waits until a time or, if that is sooner, the end of the run's time. */
  until(due: number, sleep: (ms: number) => Promise<unknown>): Promise<void>
  result(): Omit<ThreadResult, 'files' | 'skipped' | 'memoryPeakBytes' | 'spent'>
}

/** What is larger than the whole address space is refused before anybody is asked for it. */
const outOfMemory = /^InternalError: out of memory/
/** By descriptor. */
const streams: readonly (Stream | undefined)[] = [undefined, 'stdout', 'stderr', 'channel']
/** As a shell says of a program that was killed. */
const killedCode = 137

/** What a program's author reads when the value is lost. */
export function notJson(fault: string): string {
  return `gantry: the value is left out because it is not JSON: ${fault}\n`
}

/** What whoever reads the value would find wrong with it. */
function faultOf(text: string): string | undefined {
  try {
    parseJson(text)
    return undefined
  } catch (error) {
    return error instanceof Error ? `it ${error.message}` : 'it cannot be read'
  }
}

export function createRun(job: CodeJob, workspace: Workspace, { outlet, clock }: RunTools): Run {
  const startedCpu = process.threadCpuUsage()
  const deadline = clock.monotonic() + job.limits.wallMs
  const timers = createTimers()
  const random = createRandom(job.deterministic?.seed)
  let ending: { readonly exitCode: number; readonly hit?: SandboxLimit } | undefined

  const cpuMs = (): number => {
    const { user, system } = process.threadCpuUsage(startedCpu)
    return (user + system) / 1_000
  }
  const stop = (hit: SandboxLimit): void => {
    ending ??= { exitCode: killedCode, hit }
  }
  const complain = (text: string): void => outlet.write('stderr', Buffer.from(text))
  const write = (descriptor: number, text: string): void => {
    const stream = streams[descriptor]
    if (stream === undefined) throw new Error('EBADF: bad file descriptor, write')
    outlet.write(stream, Buffer.from(text))
    if (outlet.flooded !== undefined) stop(`${outlet.flooded}Bytes`)
  }
  const reach = <Result>(work: () => Result): Result => {
    // A program that catches its own exit goes on for a moment; nothing of that may be seen.
    if (ending !== undefined) throw new Error('The program has ended.')
    return work()
  }
  const host: GuestHost = {
    write: (descriptor, text) => reach(() => write(descriptor, text)),
    exit(exitCode) {
      ending ??= { exitCode }
    },
    timer: (id, ms) => timers.set(id, clock.monotonic() + ms),
    cancel: timers.clear,
    file: (call, path, ...values) => reach(() => callFile(workspace, call, path, ...values)),
    stdin: () => job.stdin,
    random,
    interrupt() {
      const now = clock.monotonic()
      outlet.tick(now)
      if (now >= deadline) stop('wallMs')
      else if (cpuMs() >= job.limits.cpuMs) stop('cpuMs')
      return ending !== undefined
    },
  }
  workspace.full = false
  return {
    host,
    timers,
    get over() {
      return ending !== undefined
    },
    end: host.exit,
    fail(text, refusedMemory) {
      if (ending !== undefined) return
      complain(`${text}\n`)
      const hit = refusedMemory || outOfMemory.test(text) ? 'memoryBytes' : workspace.full ? 'diskBytes' : undefined
      ending = { exitCode: 1, ...(hit === undefined ? {} : { hit }) }
    },
    complain,
    value(text) {
      const fault = faultOf(text)
      if (fault === undefined) outlet.write('channel', Buffer.from(`{"value":${text}}\n`))
      else complain(notJson(fault))
    },
    async until(due, sleep) {
      const ms = Math.min(due, deadline) - clock.monotonic()
      if (ms > 0) {
        outlet.flush()
        await sleep(ms)
      }
      host.interrupt()
    },
    result() {
      const { exitCode, hit } = ending ?? { exitCode: 0 }
      return { exitCode, hit, totals: outlet.totals, cpuMs: cpuMs() }
    },
  }
}
