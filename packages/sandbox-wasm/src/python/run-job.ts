import { type SandboxLimit, type SandboxLimits, ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Outcome, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { enforced } from '../guest/enforced.ts'
import { floodBytes } from '../guest/flood.ts'
import { createStreams, type Streams } from '../guest/streams.ts'
import { type Collected, type Collection, createCollection } from './collection.ts'
import { encodeWithBytes, fromHost, type HostJob, type HostReport, streamOf, toHost } from './frames.ts'
import type { HostClient } from './host-client.ts'
import { reportOf } from './report.ts'
import { watchHost } from './watch-host.ts'

/** Runs programs in one host, one after the other. */
export interface Turns {
  run(job: SandboxJob, signal: AbortSignal): Promise<Outcome>
}

/** How a turn ended: by itself with a code, at a limit, or with its host. */
type TurnEnd = { readonly code: number } | { readonly hit: SandboxLimit } | 'gone'

/** What is known of a turn besides its report. */
interface Turn {
  readonly streams: Streams
  readonly collection: Collection
  readonly wallMs: number
  /** Processor time, as seen from outside. */
  readonly seenCpuMs: number
}

export function createTurns(host: HostClient, spec: SandboxSpec, startCpuMs: number): Turns {
  const { limits } = spec
  /** Processor time before the turn. */
  let before = startCpuMs

  const perform = async (job: SandboxJob, streams: Streams, ended: Promise<TurnEnd>): Promise<Outcome> => {
    const started = performance.now()
    const watch = watchHost(host.pid, limits)
    try {
      host.send(toHost.job, ...encodeJob(job, spec))
      const hit = watch.hit.then((limit) => ({ hit: limit }))
      const end = await Promise.race([ended, hit])
      const wallMs = performance.now() - started
      if (end === 'gone') return fallen(streams, wallMs)
      if ('hit' in end) return stopped(end.hit, streams, wallMs, watch.cpuMs())
      // That it has ended is only what the host says; until it has reported, the program may still be running.
      const collection = createCollection(job)
      const report = await Promise.race([reportOf(host, collection, job), hit])
      if ('hit' in report) return stopped(report.hit, streams, performance.now() - started, watch.cpuMs())
      return finished(end.code, report, { streams, collection, wallMs, seenCpuMs: watch.cpuMs() ?? 0 })
    } finally {
      watch.stop()
    }
  }
  const stopped = (hit: SandboxLimit, streams: Streams, wallMs: number, cpuMs: number | undefined): Outcome => ({
    exit: { signal: 'SIGKILL' },
    ...streams.kept(),
    ...nothing,
    usage: { wallMs, ...(cpuMs === undefined ? {} : { cpuMs }) },
    enforced: heldBy(host),
    hit,
  })
  /** A host that falls by itself ran out of the memory that is not Python's own, or broke. */
  const fallen = (streams: Streams, wallMs: number): Outcome => {
    if (/out of memory|Allocation failed/i.test(host.lastWords))
      return stopped('memoryBytes', streams, wallMs, undefined)
    const cause = new Error(host.lastWords)
    throw new ToolError('BACKEND_FAILED', 'The process of the Python interpreter ended before its program.', { cause })
  }
  const finished = (code: number, report: HostReport, { streams, collection, wallMs, seenCpuMs }: Turn): Outcome => {
    const cpuMs = Math.max(report.cpuMs - before, seenCpuMs)
    before = report.cpuMs
    const hit = code === 0 ? undefined : hitOf(report, streams)
    return {
      exit: { code },
      ...streams.kept(),
      ...collection.result(),
      usage: { wallMs, cpuMs, memoryPeakBytes: report.memoryBytes },
      enforced: heldBy(host),
      ...(hit === undefined ? {} : { hit }),
    }
  }
  return {
    async run(job, signal) {
      const { promise: ended, resolve, reject } = Promise.withResolvers<TurnEnd>()
      const done = ({ code }: { readonly code?: unknown }): void => resolve({ code: Number(code) & 0xff })
      const streams = createStreams(job, limits, reject, spec.session === true ? done : undefined)
      host.listen((kind, payload) => {
        if (kind === fromHost.end) return resolve({ code: exitCodeOf(payload) })
        const stream = streamOf(kind)
        if (stream === undefined) throw new RangeError('A host says something that belongs elsewhere.')
        streams.push(stream, payload)
        const flooded = floodOf(streams, limits)
        if (flooded !== undefined) resolve({ hit: flooded })
      })
      void host.gone.then(() => resolve('gone'))
      let kept = false
      try {
        const outcome = await unlessAborted(perform(job, streams, ended), signal)
        kept = spec.session === true && 'code' in outcome.exit
        return outcome
      } finally {
        // Whoever disposes the sandbox waits for its end; whoever cancelled may rely on it now.
        const dead = kept ? undefined : host.kill()
        if (signal.aborted) await dead
      }
    },
  }
}

const nothing: Collected = { files: new Map(), skipped: [] }

/** Throws for what is no number, because no host of ours says that. */
function exitCodeOf(payload: Buffer): number {
  const code = Number(payload.toString() || 'none')
  if (!Number.isInteger(code)) throw new RangeError('A host gives no exit code.')
  return code & 0xff
}

/** The channel is charged where its lines are read. */
function floodOf({ stdout, stderr }: Streams, limits: SandboxLimits): SandboxLimit | undefined {
  if (stdout.total >= floodBytes(limits.stdoutBytes)) return 'stdoutBytes'
  return stderr.total >= floodBytes(limits.stderrBytes) ? 'stderrBytes' : undefined
}

/** A program that failed after something was refused to it was ended by that, whatever it made of the error. */
function hitOf({ refusedMemory, refusedDisk }: HostReport, { stderr }: Streams): SandboxLimit | undefined {
  // What is larger than the whole address space is refused before anybody is asked for it.
  const lastLine = Buffer.from(stderr.captured().bytes).toString().trimEnd().split('\n').at(-1)
  if (refusedMemory || lastLine === 'MemoryError') return 'memoryBytes'
  return refusedDisk ? 'diskBytes' : undefined
}

function heldBy({ pid }: HostClient): Outcome['enforced'] {
  const watched = pid !== undefined && process.platform === 'linux'
  return watched ? { ...enforced.python, cpuMs: 'time of the process' } : enforced.python
}

/** What every program finds in its environment, whatever its job says. */
const basicEnvironment = { HOME: '/work', TMPDIR: '/tmp', LANG: 'C.UTF-8' }

function encodeJob({ program, env, files, stdin }: SandboxJob, spec: SandboxSpec): Uint8Array[] {
  const { session = false, deterministic, limits } = spec
  const { memoryBytes, diskBytes } = limits
  const code = program.kind === 'code' ? program.code : ''
  const line = { code, env: { ...basicEnvironment, ...env }, session, ...(deterministic && { deterministic }) }
  const all = [...(files ?? [])]
  const job: HostJob = {
    line: JSON.stringify(line),
    session,
    memoryBytes,
    diskBytes,
    ...(deterministic && { deterministic }),
    stdinBytes: stdin?.length ?? 0,
    files: all.map(([path, bytes]) => [path, bytes.length]),
  }
  return encodeWithBytes(job, stdin ?? new Uint8Array(0), ...all.map(([, bytes]) => bytes))
}
