import { type Json, ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import type {
  Outcome,
  ProgramGateway,
  ProgramMessage,
  Sandbox,
  SandboxJob,
  SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import { createGatewayChannel, type GatewayChannel } from './gateway-channel.ts'
import type { Launched, LaunchJob, RunEnd } from './launcher.ts'

/** What makes an Outcome of a launcher's RunEnd. */
export interface SandboxTraits {
  readonly id: string
  readonly spec: SandboxSpec
  readonly launched: Launched
  /** Which limits the plan holds, and by what. */
  readonly enforced: Outcome['enforced']
  /** The job for the launcher: steps and files, or a line for the interpreter that waits. */
  jobOf(job: SandboxJob): LaunchJob
  /** Called once, after everything of the sandbox is gone. */
  released(): Promise<void>
}

/** A run, and what its program said of its own end. */
interface Ran {
  readonly end: RunEnd
  readonly said: Pick<Outcome, 'value' | 'fault'>
}

/** A sandbox behind a launcher; the same for all runtimes that start one. */
export function launchedSandbox({ id, spec, launched, enforced, jobOf, released }: SandboxTraits): Sandbox {
  let used = false
  const ended = launched.ended.then(async () => released())
  const optionsOf = ({ onOutput }: SandboxJob) => ({
    wallMs: spec.limits.wallMs,
    ...(onOutput === undefined ? {} : { onOutput }),
  })
  const runAlone = async (job: SandboxJob, given: AbortSignal): Promise<Ran> => {
    const broken = new AbortController()
    const { signal, leave } = follow(given, broken.signal)
    let value: Json | undefined
    const onMessage = (message: Json): void => {
      if (isObject(message) && 'value' in message) value = message.value
      else tell(job, message)
    }
    const onFlood = (error: ToolError): void => broken.abort(error)
    try {
      const end = await launched.run(jobOf(job), { ...optionsOf(job), signal, onMessage, onFlood })
      return { end, said: value === undefined ? {} : { value } }
    } finally {
      leave()
    }
  }
  /* Lines on the descriptor without the token of the run are not trusted, a value least of all. */
  const runAsking = async (job: SandboxJob, gateway: ProgramGateway, given: AbortSignal): Promise<Ran> => {
    const broken = new AbortController()
    const { signal, leave } = follow(given, broken.signal)
    let open: GatewayChannel | undefined
    const onGateway = (line: string, send: (line: string) => number): void => {
      open ??= createGatewayChannel({ gateway, send, fail: (error) => broken.abort(error) })
      open.take(line)
    }
    const onFlood = (error: ToolError): void => broken.abort(error)
    try {
      const end = await launched.run(jobOf(job), { ...optionsOf(job), signal, onGateway, onFlood })
      return { end, said: open?.said() ?? {} }
    } finally {
      open?.close()
      leave()
    }
  }
  return {
    id,
    ended,
    async run(job, signal) {
      if (used && spec.session !== true) throw new ToolError('INTERNAL', 'A sandbox runs one program only.')
      used = true
      signal.throwIfAborted()
      const { end, said } = await (job.gateway === undefined
        ? runAlone(job, signal)
        : runAsking(job, job.gateway, signal))
      if (end.unwritten !== undefined) throw unwritten(end.unwritten)
      // An interpreter that ended ends its session, which the holder must learn with the result.
      if (spec.session === true && !end.alive) await ended
      return outcomeOf(end, said, enforced)
    },
    async dispose() {
      await launched.dispose()
      await ended
    },
  }
}

function outcomeOf(end: RunEnd, said: Ran['said'], enforced: Outcome['enforced']): Outcome {
  const hit = end.hit ?? (isFull(end) ? 'diskBytes' : undefined)
  const { exit, stdout, stderr, files, skipped } = end
  const lost = { lines: end.messagesDropped, keys: end.keysDropped }
  return {
    exit,
    stdout,
    stderr,
    ...said,
    ...(lost.lines + lost.keys === 0 ? {} : { lost }),
    files,
    skipped,
    usage: usageOf(end),
    enforced,
    ...(hit === undefined ? {} : { hit }),
  }
}

/** A program that failed with no room left in its workspace was ended by that, whatever it made of the error. */
function isFull({ exit, free }: RunEnd): boolean {
  const failed = !('code' in exit) || exit.code !== 0
  return failed && free !== undefined && (free.bytes < smallestRoom || free.files === 0)
}

const smallestRoom = 65_536

/** Figures of the kernel's control groups where there are any, else what it noted of the processes that ended. */
function usageOf({ wallMs, figures, rusage }: RunEnd): Outcome['usage'] {
  const { cpuNs = figures.cpuUsec === undefined ? undefined : figures.cpuUsec * 1_000 } = figures
  const cpuMs = cpuNs === undefined ? rusage && rusage.userMs + rusage.systemMs : cpuNs / 1e6
  const peak = figures.memoryPeakBytes ?? rusage?.maxRssBytes
  return {
    wallMs,
    ...(cpuMs === undefined ? {} : { cpuMs: Math.round(cpuMs * 1000) / 1000 }),
    ...(peak === undefined ? {} : { memoryPeakBytes: peak }),
  }
}

/** Messages are as hostile as output: only what has the right shape is passed on. */
function tell({ onMessage }: SandboxJob, message: Json): void {
  if (onMessage === undefined || !isObject(message)) return
  const { progress, total, message: text, log } = message
  if (typeof progress === 'number') {
    const report: ProgramMessage = {
      kind: 'progress',
      progress,
      ...(typeof total === 'number' ? { total } : {}),
      ...(typeof text === 'string' ? { message: text } : {}),
    }
    onMessage(report)
  } else if (typeof log === 'string') onMessage({ kind: 'log', message: log })
}

function isObject(value: Json): value is { readonly [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Files that do not fit are the caller's to make smaller; nothing ran. */
function unwritten({ path, code }: { readonly path: string; readonly code: string }): ToolError {
  const why = code === 'ENOSPC' ? 'does not fit into limits.diskBytes' : `could not be written (${code})`
  return new ToolError('INPUT_INVALID', `The file ${path} ${why}.`, {
    effect: 'none',
    details: { issues: [{ path: '/files', message: `${path} ${why}` }] },
  })
}
