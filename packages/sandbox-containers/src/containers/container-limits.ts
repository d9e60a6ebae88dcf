import type { Outcome, Refusal, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { ContainerEngine } from '../engines/engine.ts'

/** What holds the limits. A limit that only the init watches says so, and `hardened` refuses it. */
export function enforcedBy(kind: string, engine: ContainerEngine, hasOwnKernel: boolean): Outcome['enforced'] {
  const { isLocal } = engine
  const byKernel = (controller: string): string => (isLocal ? `cgroup ${controller} by ${kind}` : 'watch of the init')
  return {
    wallMs: 'timer of the owner',
    cpuMs: byKernel('cpuacct'),
    memoryBytes: memoryEnforcedBy(kind, engine, hasOwnKernel),
    pids: hasOwnKernel ? 'watch of the init' : byKernel('pids'),
    diskBytes: 'tmpfs size',
    stdoutBytes: 'pipe of the init',
    stderrBytes: 'pipe of the init',
  }
}

function memoryEnforcedBy(kind: string, engine: ContainerEngine, hasOwnKernel: boolean): string {
  if (engine.mayTakeSwap === true) return `memory without swap by ${kind}; swap is not limited`
  if (hasOwnKernel || countsSocketBuffers(engine)) return `cgroup memory by ${kind}`
  return 'memory of processes; buffers of sockets are not counted'
}

/** Version 1 of control groups counts the buffers of sockets only by a limit that root writes on the engine's machine. */
export function countsSocketBuffers({ isLocal, cgroupVersion }: ContainerEngine): boolean {
  return cgroupVersion === 2 || (isLocal && process.getuid?.() === 0)
}

export function refusalOf(
  { strict, network }: SandboxSpec,
  { isLocal, hasKnownRuntime, version }: ContainerEngine,
  enforced: Outcome['enforced'],
  { hasSockets, reachesSockets }: { readonly hasSockets: boolean; readonly reachesSockets: boolean },
): Refusal | undefined {
  if (network !== 'none' && !isLocal) {
    return {
      reason: 'The egress proxy is a socket of this machine, and the sandbox is on another one.',
      remedy: 'Leave `network` out, or use an engine on this machine.',
    }
  }
  if (network !== 'none' && !hasSockets) {
    return {
      reason:
        'The socket of the egress proxy must belong to the uid of the sandbox, and this process may not change owners.',
      remedy: 'Leave `network` out, or run Gantry as root.',
    }
  }
  if (network !== 'none' && !reachesSockets) {
    return {
      reason: "The sandbox's own kernel does not forward connections to the socket of the egress proxy.",
      remedy:
        'Leave `network` out, or add "--host-uds=open" (an older runsc: "--fsgofer-host-uds") to the "runtimeArgs" of the runtime in the engine\'s daemon.json.',
    }
  }
  if (strict !== true) return undefined
  if (network !== 'none') {
    return {
      reason: 'A hardened sandbox reaches no network.',
      remedy: 'Leave `network` out, or use the profile `standard`.',
    }
  }
  if (hasKnownRuntime === false) {
    return {
      reason: `The version of the OCI runtime cannot be determined (${version}), and the profile \`hardened\` requires a known minimum version.`,
      remedy: 'Use an engine on this machine with runc, or the profile `standard`.',
    }
  }
  const loose = (['cpuMs', 'memoryBytes', 'pids'] as const).filter(
    (limit) => enforced[limit]?.startsWith('cgroup') !== true,
  )
  if (loose.length === 0) return undefined
  return {
    reason: `The kernel does not enforce ${loose.join(', ')} here, which the profile \`hardened\` requires.`,
    remedy: isLocal
      ? 'Use `docker`, `containerd` or `process`, or the profile `standard`.'
      : 'Use an engine on this machine, or the profile `standard`.',
  }
}
