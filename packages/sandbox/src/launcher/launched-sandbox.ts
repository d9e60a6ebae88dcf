import { type Json, ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { follow } from '@gantry/core/internal/resilience/abort'
import type {
  Outcome,
  PackageDigests,
  ProgramGateway,
  ProgramMessage,
  Sandbox,
  SandboxJob,
  SandboxSpec,
} from '@gantry/core/internal/runtimes/runtime'
import { createGatewayChannel, type GatewayChannel } from './gateway-channel.ts'
import type { Launched, LaunchJob, RunEnd } from './launcher.ts'

/** The settings of one sandbox behind a launcher, and the hooks of its runtime. */
export interface SandboxTraits {
  readonly id: string
  readonly spec: SandboxSpec
  readonly launched: Launched
  /** The enforced limits, each with its mechanism. */
  readonly enforced: Outcome['enforced']
  /** As `Sandbox` has them. */
  readonly image?: string
  readonly packages?: PackageDigests
  /** The job for the launcher: steps and files, or a line for the warm interpreter. */
  jobOf(job: SandboxJob): LaunchJob
  /** Called once, after the sandbox is removed. */
  released(): Promise<void>
}

/** A finished run, and the value or fault that its program reported. */
interface Ran {
  readonly end: RunEnd
  readonly said: Pick<Outcome, 'value' | 'fault'>
}

/** A sandbox behind a launcher, shared by all launcher runtimes. */
export function launchedSandbox({
  id,
  spec,
  launched,
  enforced,
  image,
  packages,
  jobOf,
  released,
}: SandboxTraits): Sandbox {
  const { memoryBytes, pausing, kill } = launched
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
      else forward(job, message)
    }
    const onFlood = (error: ToolError): void => broken.abort(error)
    try {
      const end = await launched.run(jobOf(job), { ...optionsOf(job), signal, onMessage, onFlood })
      return { end, said: value === undefined ? {} : { value } }
    } finally {
      leave()
    }
  }
  // Lines without the token of the run are not trusted, values in particular.
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
    ...(image === undefined ? {} : { image }),
    ...(packages === undefined ? {} : { packages }),
    ...(memoryBytes === undefined ? {} : { memoryBytes }),
    ...(pausing === undefined ? {} : { pausing }),
    ...(kill === undefined ? {} : { kill }),
    async run(job, signal) {
      if (used && spec.session !== true) throw new ToolError('INTERNAL', 'A sandbox runs one program only.')
      used = true
      signal.throwIfAborted()
      const { end, said } = await (job.gateway === undefined
        ? runAlone(job, signal)
        : runAsking(job, job.gateway, signal))
      if (end.unwritten !== undefined) throw unwritten(end.unwritten)
      // An interpreter that exited ends its session; the caller must learn this with the result.
      if (spec.session === true && !end.alive) await ended
      return outcomeOf(end, said, enforced, spec.limits.memoryBytes)
    },
    async dispose() {
      await launched.dispose()
      await ended
    },
  }
}

function outcomeOf(end: RunEnd, said: Ran['said'], enforced: Outcome['enforced'], memoryBytes: number): Outcome {
  const hit = end.hit ?? (isFull(end) ? 'diskBytes' : wasTooLarge(end, memoryBytes) ? 'memoryBytes' : undefined)
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

/** A program that failed with a full workspace was ended by that limit, however it handled the error. */
function isFull({ exit, free }: RunEnd): boolean {
  const failed = !('code' in exit) || exit.code !== 0
  return failed && free !== undefined && (free.bytes < smallestRoom || free.files === 0)
}

const smallestRoom = 65_536

/**
 * Where no control group can be read, the kernel may end a program that grows faster than the init looks: it was killed, and
 * had used more than it may.
 */
function wasTooLarge({ exit, figures, rusage }: RunEnd, memoryBytes: number): boolean {
  const killed = 'code' in exit ? exit.code === 137 : exit.signal === 'SIGKILL'
  return killed && figures.memoryPeakBytes === undefined && (rusage?.maxRssBytes ?? 0) >= memoryBytes
}

/** Uses the figures of the control groups when there are any, else the rusage of the exited processes. */
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

/** Messages are as hostile as output: only those of the right shape are delivered. */
function forward({ onMessage }: SandboxJob, message: Json): void {
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

/** The caller must make the files smaller; no program ran. */
function unwritten({ path, code }: { readonly path: string; readonly code: string }): ToolError {
  const why = code === 'ENOSPC' ? 'does not fit into limits.diskBytes' : `could not be written (${code})`
  return new ToolError('INPUT_INVALID', `The file ${path} ${why}.`, {
    effect: 'none',
    details: { issues: [{ path: '/files', message: `${path} ${why}` }] },
  })
}
