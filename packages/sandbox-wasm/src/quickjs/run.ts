import type { SandboxLimit } from '@gantry/contract'
import { parseJson } from '@gantry/core/internal/json/parse'
import { defaultJsonLimits } from '@gantry/core/internal/json/plain'
import type { ProgramFault } from '@gantry/core/internal/runtimes/runtime'
import type { GatewayResponse, GuestChannel } from '../channel/guest-channel.ts'
import type { ThreadResult } from '../channel/messages.ts'
import { createRandom } from '../guest/random.ts'
import type { Stream } from '../guest/streams.ts'
import type { Workspace } from '../guest/workspace.ts'
import { createTimers, type Timers } from './engine.ts'
import { placed, sharpened } from './fault.ts'
import { callFile } from './files.ts'
import type { GuestHost } from './guest.ts'
import type { CodeJob, RunTools } from './scripts.ts'
import type { Place } from './strip-types.ts'

/** One run of a program: its host functions, and whether and how it has ended. The first end counts. */
export interface Run {
  readonly host: GuestHost
  readonly timers: Timers
  readonly over: boolean
  end(exitCode: number): void
  /** Ends with an error, which is printed; after memory was refused, the memory limit is the hit. */
  fail(text: string, refusedMemory: boolean): void
  complain(text: string): void
  value(text: string): void
  /** Maps a position in the running code to the author's source, when the two differ. */
  places: ((place: Place) => Place) | undefined
  /** Ends a program with a gateway with its failure; after memory was refused, the memory limit is the hit. */
  fault(fault: ProgramFault, refusedMemory: boolean): void
  /** Ends a program with a gateway with its value as JSON text; an empty text is null. */
  returned(text: string, exitCode: number): void
  /** Waits for a gateway response, until the deadline of the run. */
  rest(line: GuestChannel): GatewayResponse | undefined
  /** Checks the limits at intervals, because reading the CPU time costs more than a turn of a program. */
  look(): void
  /** Waits until a time, or the deadline of the run if that is sooner. */
  until(due: number, sleep: (ms: number) => Promise<unknown>): Promise<void>
  result(): Omit<ThreadResult, 'files' | 'skipped' | 'memoryPeakBytes' | 'spent'>
}

/** An allocation larger than the address space is refused before memory is requested. */
const outOfMemory = /^InternalError: out of memory/
/** By descriptor. */
const streams: readonly (Stream | undefined)[] = [undefined, 'stdout', 'stderr', 'channel']
/** A program with a gateway has no channel of its own, so that nothing it writes can imitate its value. */
const programStreams: typeof streams = [undefined, 'stdout', 'stdout']
/** Interval of limit checks between responses; the interpreter checks while it runs. */
const lookMs = 5
/** The exit code of a killed program, as in a shell. */
export const killedCode = 137

/** The end of a run; `value` and `fault` are those of a program with a gateway. */
interface Ending extends Pick<ThreadResult, 'exitCode' | 'value' | 'fault'> {
  readonly hit?: SandboxLimit
}

/** The message for the program's author when the value is lost. */
export function notJson(fault: string): string {
  return `gantry: the value is left out because it is not JSON: ${fault}\n`
}

/** Why the reader of the value would refuse it. */
function faultOf(text: string, dropped?: { count: number }): string | undefined {
  try {
    parseJson(text, defaultJsonLimits, dropped)
    return undefined
  } catch (error) {
    return error instanceof Error ? `it ${error.message}` : 'it cannot be read'
  }
}

export function createRun(job: CodeJob, workspace: Workspace, { outlet, clock, line }: RunTools): Run {
  const startedCpu = process.threadCpuUsage()
  const deadline = clock.monotonic() + job.limits.wallMs
  const timers = createTimers()
  const random = createRandom(job.deterministic?.seed)
  const open = line === undefined ? streams : programStreams
  let ending: Ending | undefined
  let looked = 0

  const cpuMs = (): number => {
    const { user, system } = process.threadCpuUsage(startedCpu)
    return (user + system) / 1_000
  }
  const stop = (hit: SandboxLimit): void => {
    ending ??= { exitCode: killedCode, hit }
  }
  const complain = (text: string): void => outlet.write('stderr', Buffer.from(text))
  const write = (descriptor: number, text: string): void => {
    const stream = open[descriptor]
    if (stream === undefined) throw new Error('EBADF: bad file descriptor, write')
    outlet.write(stream, Buffer.from(text))
    if (outlet.flooded !== undefined) stop(`${outlet.flooded}Bytes`)
  }
  const reach = <Result>(work: () => Result): Result => {
    // A program that catches its own exit runs on for a moment; its effects must not be visible.
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
  const fault = (found: ProgramFault, refusedMemory: boolean): void => {
    const full = refusedMemory || outOfMemory.test(`${found.name}: ${found.message}`)
    const fault = sharpened(placed(found, run.places), job.program.code)
    ending ??= { exitCode: 1, fault, ...(full ? { hit: 'memoryBytes' } : {}) }
  }
  workspace.full = false
  const run: Run = {
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
      // The reader of the channel leaves `__proto__` out and reports it.
      const fault = faultOf(text, { count: 0 })
      if (fault === undefined) outlet.write('channel', Buffer.from(`{"value":${text}}\n`))
      else complain(notJson(fault))
    },
    places: undefined,
    fault,
    returned(text, exitCode) {
      const wrong = text === '' ? undefined : faultOf(text)
      if (wrong !== undefined)
        fault({ kind: 'run', name: 'TypeError', message: `The value that was returned is not JSON: ${wrong}.` }, false)
      else ending ??= { exitCode, value: text === '' ? 'null' : text }
    },
    rest(line) {
      outlet.flush()
      const answer = line.rest(deadline)
      if (answer === undefined) host.interrupt()
      return answer
    },
    look() {
      const now = clock.monotonic()
      if (now - looked < lookMs) return
      looked = now
      host.interrupt()
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
      const { hit, ...rest } = ending ?? { exitCode: 0 }
      return { ...rest, hit, totals: outlet.totals, cpuMs: cpuMs() }
    },
  }
  return run
}
