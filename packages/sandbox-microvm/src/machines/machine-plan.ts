import type { SandboxLimits } from '@gantry/contract'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { Outcome, Refusal, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { Languages } from '@gantry/sandbox/internal/languages/languages'
import { basicEnvironment, type Inside, waitingStep } from '@gantry/sandbox/internal/launcher/launch-job'
import type { Launched } from '@gantry/sandbox/internal/launcher/launcher'
import { startFrame } from '@gantry/sandbox/internal/launcher/protocol'
import type { Planner } from '@gantry/sandbox/internal/process/planner'
import { launchedMachine, type Machine } from './machine.ts'

export const mebibyte = 2 ** 20
/** The kernel of the guest, its first process and its cache of files. */
const guestBytes = 128 * mebibyte
/** Machines of similar limits have one size, so that they have one snapshot. */
const memoryStep = 128 * mebibyte
/** A hypervisor's threads: QEMU reads a disk with up to 64. */
const hypervisorThreads = 128
/** A snapshot is taken of an interpreter only where each run draws new random numbers: what runs as Node keeps its own. */
const renewable: readonly string[] = ['python']
/** A machine boots for seconds under emulation, and for many on a busy host. */
export const bootMs = 120_000

/**
 * What the hypervisor of a sandbox may use: its limits are those of the machine and `hypervisorBytes` of its own, and the
 * processor time of its programs.
 */
export function machineSpec({ limits, session, strict }: SandboxSpec, hypervisorBytes: number): SandboxSpec {
  const { wallMs, cpuMs } = limits
  const memoryBytes = machineBytes(limits) + hypervisorBytes
  return {
    network: 'none',
    limits: {
      wallMs,
      cpuMs,
      memoryBytes,
      pids: hypervisorThreads,
      diskBytes: mebibyte,
      stdoutBytes: 0,
      stderrBytes: 0,
    },
    ...(session === undefined ? {} : { session }),
    ...(strict === undefined ? {} : { strict }),
  }
}

export function machineBytes({ memoryBytes }: SandboxLimits): number {
  return Math.ceil((memoryBytes + guestBytes) / memoryStep) * memoryStep
}

/** A sandbox as its guest has it. */
export function insideOf({ limits }: SandboxSpec, languages: Languages): Inside {
  return {
    workspace: '/work',
    node: '/gantry/node',
    drivers: '/gantry/drivers',
    languages,
    env: basicEnvironment('/work'),
    rlimits: {},
    // The guest's control group refuses the process beyond this one, which the init must see to end the run.
    watch: { pids: limits.pids },
  }
}

/** The frame that starts the interpreter of a specification, where a snapshot may be taken of it. */
export function aheadOf(spec: SandboxSpec, inside: Inside): Buffer | undefined {
  const { language = '', session } = spec
  if (!renewable.includes(language)) return undefined
  const step = waitingStep(inside.languages.get(language), spec, inside)
  return step === undefined ? undefined : startFrame(step, session === true)
}

/** Waits until a machine that booted takes a program. */
export async function readyMachine(machine: Machine, signal: AbortSignal): Promise<Launched> {
  const { init, supervisor } = machine
  const leave = onAbort(signal, supervisor.kill)
  try {
    await Promise.race([init.ready, supervisor.ended])
    signal.throwIfAborted()
    if (!init.isReady()) throw await machine.failure()
    return launchedMachine(machine)
  } finally {
    leave()
  }
}

/** Of a machine that is started to see whether KVM works. */
export function trialLimits(wallMs: number): SandboxLimits {
  return {
    wallMs,
    cpuMs: wallMs,
    memoryBytes: 64 * mebibyte,
    pids: 16,
    diskBytes: mebibyte,
    stdoutBytes: 4_096,
    stderrBytes: 4_096,
  }
}

export function enforcedBy({ enforced }: Planner): Outcome['enforced'] {
  return {
    ...enforced,
    memoryBytes: 'cgroup of the guest',
    pids: 'cgroup of the guest',
    diskBytes: 'tmpfs size of the guest',
  }
}

export function refusalOf({ network }: SandboxSpec): Refusal | undefined {
  if (network === 'none') return undefined
  return {
    reason: 'A virtual machine has no network device.',
    remedy: 'Leave `network` out, or use a runtime that has a network, such as `process` or `docker`.',
  }
}
