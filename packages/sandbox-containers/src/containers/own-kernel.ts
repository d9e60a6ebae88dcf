import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chownSync, readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { release } from 'node:os'
import { join } from 'node:path'
import type { SandboxLimits } from '@gantry/contract'
import type { PlannedSandbox, PreparedHost } from '@gantry/sandbox/internal/drivers/launcher-runtime'
import type { LaunchStep } from '@gantry/sandbox/internal/launcher/launcher'
import { egressInside } from '@gantry/sandbox/internal/process/egress-inside'

/** Enough for a program that reads a file and connects once. */
const trialLimits: SandboxLimits = {
  wallMs: 10_000,
  cpuMs: 10_000,
  memoryBytes: 128 * 2 ** 20,
  pids: 32,
  diskBytes: 2 ** 20,
  stdoutBytes: 4_096,
  stderrBytes: 4_096,
}
const startMs = 20_000

/** A kernel draws it at its start; gVisor has none. */
const bootFile = '/proc/sys/kernel/random/boot_id'
/** Every kernel has it, gVisor's too, and it is not covered. */
const versionFile = '/proc/version'

/** Every image that `gantry runtime build` makes has this shell, whatever its labels say. */
const telling = [
  '/bin/sh',
  '-c',
  `read -r boot <${bootFile}; read -r version <${versionFile}; echo "boot $boot"; echo "version $version"`,
] as const

/** Each connects to the port of the relay and waits for the other end. */
const connecting: readonly { readonly path: string; readonly args: readonly string[] }[] = [
  { path: '/usr/bin/bash', args: ['-c', `exec 3<>/dev/tcp/127.0.0.1/${egressInside.port}; read -u 3`] },
  {
    path: '/usr/bin/python3',
    args: ['-c', `import socket; socket.create_connection(('127.0.0.1', ${egressInside.port})).recv(1)`],
  },
  { path: '/gantry/node', args: ['-e', `net.connect(${egressInside.port}, '127.0.0.1').resume()`] },
]

/** The kernel of the engine's machine, as far as it is known. */
export interface EngineKernel {
  /** `uname -r`. */
  readonly release?: string
  /** Drawn at its start; known for this machine alone. */
  readonly boot?: string
}

export function kernelOfThisMachine(): EngineKernel {
  return { release: release(), boot: readFileSync(bootFile, 'latin1').trim() }
}

/** Whose kernel programs run on. `unproven` is refused like `host`: nothing shows that it is the sandbox's own. */
export type KernelFound = 'own' | 'host' | 'unproven'

/** What a trial of a sandbox that should have a kernel of its own shows. */
export interface KernelTrial {
  readonly kernel: KernelFound
  /** Whether a program reaches a Unix socket of this machine that is mounted into its container. */
  readonly reachesSockets: boolean
}

export interface TrialOptions extends Pick<PreparedHost, 'plan'> {
  /** The kernel of the engine's machine, from which the sandbox's must differ. */
  readonly machine: EngineKernel
  /** Whether the socket of a proxy can be tried. */
  readonly hasSockets: boolean
  /** Whether the image has a program. */
  has(path: string): boolean
}

/**
 * Tries one container of an engine. What the OCI runtime calls itself proves nothing, and a kernel of the
 * sandbox's own forwards connections to sockets only when an option allows it. `plan` must plan a container that would start
 * on the kernel of the engine's machine too. Rejects when it does not start.
 */
export async function tryOwnKernel(
  { plan, machine, hasSockets, has }: TrialOptions,
  signal: AbortSignal,
): Promise<KernelTrial> {
  const network = hasSockets ? ({ allow: [] } as const) : 'none'
  const planned = plan(randomBytes(9).toString('base64url'), { network, limits: trialLimits })
  const { egressFolder, uid } = planned
  let reachesSockets = false
  const server = createServer((socket) => {
    reachesSockets = true
    socket.on('error', () => undefined).end()
  })
  try {
    if (egressFolder !== undefined) {
      const path = join(egressFolder, 'proxy.sock')
      await once(server.listen(path), 'listening')
      if (uid !== undefined) chownSync(path, uid, uid)
    }
    const program = hasSockets ? connecting.find(({ path }) => has(path)) : undefined
    const steps = [telling, ...(program === undefined ? [] : [[program.path, ...program.args] as const])] as const
    const printed = await outputOf(planned, steps, signal)
    return { kernel: kernelIn(printed, machine), reachesSockets }
  } finally {
    server.close()
    planned.release()
  }
}

/**
 * Whose kernel printed this. A kernel of the sandbox's own is proven by a boot id or a release that the engine's machine does
 * not have; a program that prints neither proves nothing.
 */
export function kernelIn(printed: string, machine: EngineKernel): KernelFound {
  const [, boot] = /^boot ([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})$/m.exec(printed) ?? []
  const [, running] = /^version Linux version (\S{1,128}) /m.exec(printed) ?? []
  if (boot !== undefined && boot === machine.boot) return 'host'
  if (running === undefined) return 'unproven'
  if (boot !== undefined && machine.boot !== undefined) return 'own'
  if (machine.release === undefined) return 'unproven'
  return running === machine.release ? 'host' : 'own'
}

async function outputOf(
  planned: PlannedSandbox,
  commands: readonly [Command, ...Command[]],
  signal: AbortSignal,
): Promise<string> {
  const launched = await planned.launch({ signal, startMs, early: false })
  try {
    if (planned.egressFolder !== undefined) launched.relay(egressInside.port, egressInside.socket)
    const { env, workspace: cwd, rlimits } = planned.inside
    const stepOf = (argv: Command): LaunchStep => ({ argv, env, cwd, rlimits })
    const [first, ...rest] = commands
    const { stdout } = await launched.run(
      { steps: [stepOf(first), ...rest.map(stepOf)], stdoutBytes: 4_096, stderrBytes: 4_096 },
      { wallMs: trialLimits.wallMs, signal },
    )
    return Buffer.from(stdout.bytes).toString('latin1')
  } finally {
    await launched.dispose()
  }
}

type Command = readonly [string, ...string[]]
