import { readFileSync } from 'node:fs'
import type { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { addressText, type DockerAddress, type DockerClient, noDocker, unavailable } from './docker-client.ts'
import { askOciProgram, type OciProgram } from './oci-versions.ts'

/** What an engine says of itself. */
export interface DockerInfo {
  readonly ServerVersion: string
  readonly Runtimes: { readonly [name: string]: { readonly path?: unknown } | null }
  readonly DefaultRuntime?: string
  readonly OSType: string
  readonly CgroupVersion?: string
  readonly KernelVersion?: unknown
  readonly MemoryLimit?: unknown
  readonly PidsLimit?: unknown
  readonly CpuCfsQuota?: unknown
  readonly SwapLimit?: unknown
}

export function checkedInfo(answer: unknown, address: DockerAddress): DockerInfo {
  const { ServerVersion, Runtimes, OSType } = (isObject(answer) ? answer : {}) as Partial<DockerInfo>
  if (typeof ServerVersion === 'string' && isObject(Runtimes) && typeof OSType === 'string') return answer as DockerInfo
  throw noDocker(address)
}

export function checkRuntime(info: DockerInfo, runtime: string | undefined, address: DockerAddress): void {
  if (info.OSType !== 'linux') {
    throw unavailable(
      `Docker at ${addressText(address)} runs ${info.OSType} containers.`,
      'Switch it to Linux containers.',
    )
  }
  if (runtime === undefined || Object.hasOwn(info.Runtimes, runtime)) return
  const known = Object.keys(info.Runtimes).join(', ')
  throw unavailable(
    `Docker at ${addressText(address)} has no runtime ${JSON.stringify(runtime)}; it has ${known}.`,
    `Add it to "runtimes" in the engine's daemon.json and reload the engine.`,
  )
}

/** An engine drops a limit that its kernel does not have, and starts the container all the same. */
export function checkLimits({ MemoryLimit, PidsLimit, CpuCfsQuota }: DockerInfo, address: DockerAddress): void {
  const limits = { memory: MemoryLimit, processes: PidsLimit, processors: CpuCfsQuota }
  const missing = Object.entries(limits).flatMap(([limit, has]) => (has === false ? [limit] : []))
  if (missing.length > 0) throw unlimited(missing.join(', '), address)
}

export function unlimited(what: string, address: DockerAddress): ToolError {
  const reason = `Docker at ${addressText(address)} enforces no limit of ${what}: its kernel or its user has no such control group.`
  return unavailable(
    reason,
    'Give the engine the control groups of memory, pids and cpu; `docker info` shows what is missing.',
  )
}

/** Whether containers may be swapped out without a limit; not on this machine while it has no swap. */
export function mayTakeSwap({ SwapLimit }: DockerInfo, { kind }: DockerAddress): boolean {
  if (SwapLimit !== false) return false
  return kind !== 'socket' || !/^SwapTotal:\s+0 kB$/m.test(readFileSync('/proc/meminfo', 'latin1'))
}

/**
 * The program behind an OCI runtime of the engine. The engine knows the version of runc; another program is asked itself,
 * where the engine is on this machine. Undefined when neither says it.
 */
export async function dockerOciProgram(
  client: DockerClient,
  { Runtimes, DefaultRuntime = 'runc' }: DockerInfo,
  runtime: string | undefined,
  signal: AbortSignal,
): Promise<OciProgram | undefined> {
  const path = Runtimes[runtime ?? DefaultRuntime]?.path
  if (typeof path !== 'string') return undefined
  if (path !== 'runc') return client.address.kind === 'socket' ? askOciProgram(path, signal) : undefined
  const { Components } = (await client.call('GET', '/version', { signal })) as { readonly Components?: unknown }
  const components: readonly DockerComponent[] = Array.isArray(Components) ? Components : []
  const runc: DockerComponent = components.find((one) => one?.Name === 'runc') ?? {}
  const { Version, Details } = runc
  if (typeof Version !== 'string') return undefined
  const build = Details?.GitCommit
  const isOfVersion = typeof build === 'string' && build.startsWith(Version)
  return { name: 'runc', version: Version, ...(isOfVersion ? { build } : {}) }
}

interface DockerComponent {
  readonly Name?: unknown
  readonly Version?: unknown
  readonly Details?: { readonly GitCommit?: unknown }
}
