import { type SandboxLimit, type SandboxLimits, ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import type { Outcome, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { checkPath } from '@gantry/sandbox/internal/languages/file-path'
import { enforced, floodBytes } from '../guest/limits.ts'
import { createStreams, type Streams } from '../guest/streams.ts'
import { encodeWithBytes, fromHost, type HostJob, type HostReport, streamOf, toHost } from './frames.ts'
import { type HostClient, watchHost } from './host-process.ts'

/** Runs programs in one host, one at a time. */
interface PythonRuns {
  run(job: SandboxJob, signal: AbortSignal): Promise<Outcome>
}

/** The end of a run: an exit code, a limit, or the exit of the host. */
type ProgramEnd = { readonly code: number } | { readonly hit: SandboxLimit } | 'gone'

/** The measurements of a run in this process; the host's report has the others. */
interface RunMeasures {
  readonly streams: Streams
  readonly collection: Collection
  readonly wallMs: number
  /** CPU time, measured from outside. */
  readonly seenCpuMs: number
}

export function createPythonRuns(host: HostClient, spec: SandboxSpec, startCpuMs: number): PythonRuns {
  const { limits } = spec
  /** CPU time before the run. */
  let before = startCpuMs

  const perform = async (job: SandboxJob, streams: Streams, ended: Promise<ProgramEnd>): Promise<Outcome> => {
    const started = performance.now()
    const watch = watchHost(host.pid, limits)
    try {
      host.send(toHost.job, ...encodeJob(job, spec))
      const hit = watch.hit.then((limit) => ({ hit: limit }))
      const end = await Promise.race([ended, hit])
      const wallMs = performance.now() - started
      if (end === 'gone') return fallen(streams, wallMs)
      if ('hit' in end) return stopped(end.hit, streams, wallMs, watch.cpuMs())
      // Only the host's report proves that the program has ended; until then it may still run.
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
  /** A host that exits by itself ran out of memory outside of Python's own, or broke. */
  const fallen = (streams: Streams, wallMs: number): Outcome => {
    if (/out of memory|Allocation failed/i.test(host.lastWords))
      return stopped('memoryBytes', streams, wallMs, undefined)
    const cause = new Error(host.lastWords)
    throw new ToolError('BACKEND_FAILED', 'The process of the Python interpreter ended before its program.', { cause })
  }
  const finished = (
    code: number,
    report: HostReport,
    { streams, collection, wallMs, seenCpuMs }: RunMeasures,
  ): Outcome => {
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
      const { promise: ended, resolve, reject } = Promise.withResolvers<ProgramEnd>()
      const done = ({ code }: { readonly code?: unknown }): void => resolve({ code: Number(code) & 0xff })
      const streams = createStreams(job, limits, reject, spec.session === true ? done : undefined)
      host.listen((kind, payload) => {
        if (kind === fromHost.end) return resolve({ code: exitCodeOf(payload) })
        const stream = streamOf(kind)
        if (stream === undefined) throw new RangeError('Protocol error: the Python host sent an unexpected frame.')
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
        // Disposal waits for the end of the sandbox, so a cancelled run has ended when this returns.
        const dead = kept ? undefined : host.kill()
        if (signal.aborted) await dead
      }
    },
  }
}

const nothing: Collected = { files: new Map(), skipped: [] }

/** Throws for a payload that is not a number, which a correct host never sends. */
function exitCodeOf(payload: Buffer): number {
  const code = Number(payload.toString() || 'none')
  if (!Number.isInteger(code)) throw new RangeError('Protocol error: the exit code is not an integer.')
  return code & 0xff
}

/** The channel is charged where its lines are read. */
function floodOf({ stdout, stderr }: Streams, limits: SandboxLimits): SandboxLimit | undefined {
  if (stdout.total >= floodBytes(limits.stdoutBytes)) return 'stdoutBytes'
  return stderr.total >= floodBytes(limits.stderrBytes) ? 'stderrBytes' : undefined
}

/** A program that failed after a refusal was ended by that limit, however it handled the error. */
function hitOf({ refusedMemory, refusedDisk }: HostReport, { stderr }: Streams): SandboxLimit | undefined {
  // An allocation larger than the address space is refused before memory is requested.
  const lastLine = Buffer.from(stderr.captured().bytes).toString().trimEnd().split('\n').at(-1)
  if (refusedMemory || lastLine === 'MemoryError') return 'memoryBytes'
  return refusedDisk ? 'diskBytes' : undefined
}

function heldBy({ pid }: HostClient): Outcome['enforced'] {
  const watched = pid !== undefined && process.platform === 'linux'
  return watched ? { ...enforced.python, cpuMs: 'time of the process' } : enforced.python
}

/** The environment of every program, below the job's own. */
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

/** Longest pause of a host while it sends files. */
const longestPauseMs = 2_000

/**
 * Requests files and figures from a host whose program has ended. A host that sends nothing, or anything else, fails with
 * BACKEND_FAILED; the caller also watches its limits, because a host that still runs its program sends nothing either.
 */
async function reportOf(
  host: HostClient,
  collection: Collection,
  { collect }: Pick<SandboxJob, 'collect'>,
): Promise<HostReport> {
  const { promise, resolve, reject } = Promise.withResolvers<HostReport>()
  const fail = (): void =>
    reject(new ToolError('BACKEND_FAILED', 'The Python interpreter did not report its files and usage.'))
  const timer = setTimeout(fail, longestPauseMs)
  host.listen((kind, payload) => {
    // Output that arrives after the reported end is ignored, and is not a report.
    if (streamOf(kind) !== undefined || kind === fromHost.end) return
    timer.refresh()
    if (kind === fromHost.file) collection.file(payload)
    else if (kind === fromHost.content) collection.content(payload)
    else if (kind === fromHost.skipped) collection.skipped(payload)
    else if (kind !== fromHost.report) throw new RangeError('Protocol error: the Python host sent an unexpected frame.')
    else {
      collection.check()
      resolve(readReport(payload))
      host.listen(refuse)
    }
  })
  void host.gone.then(fail)
  host.send(toHost.report, Buffer.from(JSON.stringify(collect ?? { files: 0, bytes: 0 })))
  try {
    return await promise
  } finally {
    clearTimeout(timer)
  }
}

/** A host that has reported waits for its next job and must send nothing. */
function refuse(): never {
  throw new RangeError('Protocol error: the Python host sent a frame without a request.')
}

/** Throws for anything but a valid report: the program controls the process that wrote it. */
function readReport(payload: Buffer): HostReport {
  const said: { readonly [name in keyof HostReport]?: unknown } = JSON.parse(payload.toString())
  const { cpuMs, memoryBytes, refusedMemory, refusedDisk } = said
  if (!isAmount(cpuMs) || !isAmount(memoryBytes))
    throw new RangeError('Protocol error: the usage report has an invalid number.')
  if (typeof refusedMemory !== 'boolean' || typeof refusedDisk !== 'boolean')
    throw new RangeError('A report does not say what was refused.')
  return { cpuMs, memoryBytes, refusedMemory, refusedDisk }
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= Number.MAX_SAFE_INTEGER
}

type Collected = Pick<Outcome, 'files' | 'skipped'>

/** Collects the files that a host sends. The host is not trusted: every method throws when a limit is exceeded. */
interface Collection {
  /** Starts the next file, with its declared size. */
  file(payload: Buffer): void
  /** A piece of the current file. */
  content(payload: Buffer): void
  skipped(payload: Buffer): void
  /** Throws when the current file is incomplete. */
  check(): void
  result(): Collected
}

const keptSkipped = 200
/** More entries than a correct host sends. */
const mostSkipped = 20_000

function createCollection({ collect }: Pick<SandboxJob, 'collect'>): Collection {
  const files = new Map<string, Uint8Array>()
  const skipped: { path: string; reason: string }[] = []
  let [filesLeft, bytesLeft, skippedLeft] = [collect?.files ?? 0, collect?.bytes ?? 0, mostSkipped]
  let file = new Uint8Array(0)
  let filled = 0
  const skip = (path: string, reason: string): void => {
    if (skipped.length < keptSkipped) skipped.push({ path: path.toWellFormed().slice(0, 200), reason })
  }
  const check = (): void => {
    if (filled < file.length) throw new RangeError('Protocol error: a file ended before its declared length.')
  }
  return {
    file(payload) {
      check()
      const { path, bytes }: { path: unknown; bytes: unknown } = JSON.parse(payload.toString())
      if (typeof path !== 'string' || !isLength(bytes))
        throw new RangeError('Protocol error: a file has no valid path or length.')
      bytesLeft -= bytes
      filesLeft -= 1
      if (bytesLeft < 0 || filesLeft < 0) throw new RangeError('Protocol error: output files exceed their limits.')
      file = new Uint8Array(bytes)
      filled = 0
      const fault = checkPath(path)
      if (fault === undefined) files.set(path, file)
      else skip(path, fault)
    },
    content(payload) {
      if (payload.length === 0) throw new RangeError('Protocol error: a chunk of a file is empty.')
      file.set(payload, filled)
      filled += payload.length
    },
    skipped(payload) {
      skippedLeft -= 1
      if (skippedLeft < 0) throw new RangeError('Protocol error: too many skipped files.')
      const { path, reason }: { path: unknown; reason: unknown } = JSON.parse(payload.toString())
      skip(String(path), String(reason).slice(0, 200))
    },
    check,
    result: () => ({ files, skipped }),
  }
}

function isLength(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 0
}
