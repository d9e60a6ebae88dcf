import { chownSync, mkdirSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { type SandboxLimits, ToolError } from '@gantry/contract'
import { codeOf } from '@gantry/core/internal/files/private-file'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import type { SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import {
  type PlannedSandbox,
  type PreparedHost,
  processIdleBytes,
} from '@gantry/sandbox/internal/drivers/launcher-runtime'
import type { Languages } from '@gantry/sandbox/internal/languages/languages'
import { connectInit } from '@gantry/sandbox/internal/launcher/init'
import { basicEnvironment, watchOf } from '@gantry/sandbox/internal/launcher/launch-job'
import { launchedOf } from '@gantry/sandbox/internal/launcher/launched'
import type { Launched, LaunchOptions } from '@gantry/sandbox/internal/launcher/launcher'
import { egressEnvironment } from '@gantry/sandbox/internal/process/egress-inside'
import { sweep } from '@gantry/sandbox/internal/process/janitor'
import { openSandboxRoot, stateOf } from '@gantry/sandbox/internal/process/sandbox-root'
import { filterHash } from '@gantry/sandbox/internal/process/seccomp/filters'
import { claimUids, type Uids } from '@gantry/sandbox/internal/process/uids'
import { ulimitsOf } from '../engines/container-policy.ts'
import { type LocalProcess, localProcess } from '../engines/container-removal.ts'
import { unavailable } from '../engines/docker-client.ts'
import type { Container, ContainerEngine, ContainerImage, ContainerSpec } from '../engines/engine.ts'
import { imageContents, imageLanguages } from '../images/image-contents.ts'
import { type CgroupSources, cgroupSources, limitSocketBuffers, readMemory } from './cgroup-figures.ts'
import { countsSocketBuffers, enforcedBy, refusalOf } from './container-limits.ts'
import { superviseContainer } from './container-supervisor.ts'
import { type EngineKernel, type KernelFound, kernelOfThisMachine, tryOwnKernel } from './own-kernel.ts'

/** How sandboxes of one engine and one OCI runtime differ from those of another. */
export interface ContainerTraits {
  /** The OCI runtime, as the engine names it; its default when absent. */
  readonly runtime?: string
  /** Whether the control group counts the threads of a kernel in user space in addition to those of programs. */
  readonly hasOwnKernel: boolean
  /** What starts as process 1 with a filter of system calls; the init over its stdin and stdout when absent. */
  readonly initCommand?: (filter: 'base' | 'strict') => ContainerSpec['command']
  /** Processes under the uid of a sandbox beyond those of programs; limits by uid are set where the engine sets none. */
  readonly uidProcesses?: number
}

/** Opens an engine for containers of an owner, which has a private folder on this machine until it is closed. */
export type OpenEngine = (
  owner: { readonly owner: string; readonly folder: string },
  signal: AbortSignal,
) => Promise<ContainerEngine>

export interface ContainerHostOptions extends ContainerTraits {
  readonly kind: string
  readonly languages: Languages
  /** By name or digest. */
  readonly image: string
  /** Where folders of egress proxies are; a private folder under the system's temporary one when absent. */
  readonly root?: string
  readonly processors: number
  /** Whether waiting sandboxes may be paused. */
  readonly pause: boolean
  readonly open: OpenEngine
  readonly signal: AbortSignal
}

/** The init, and the relay where there is a network. */
const ownProcesses = 2
/** Threads of gVisor's kernel that the control group counts in addition to those of programs. */
const kernelThreads = 96
const openFiles = 1_024
/** What the kernel gives each process beyond `cpuMs`, so that the owner, who names the limit, is first. */
const spareSeconds = 5
/** The engine's own process for each container, which is in no control group of the container. */
const shimBytes = 6 * 2 ** 20
/** gVisor's kernel and its server of files. */
const kernelBytes = 24 * 2 ** 20

/** Memory of an idle container, as it was measured; what a container uses replaces it where that can be read. */
export function containerIdleBytes({ hasOwnKernel }: ContainerTraits): (spec: SandboxSpec) => number {
  const extra = shimBytes + (hasOwnKernel ? kernelBytes : 0)
  return (spec) => processIdleBytes(spec) + extra
}

function initOverStdio(filter: 'base' | 'strict'): ContainerSpec['command'] {
  return ['/gantry/init', 'init', '--stdio', `/gantry/filters/${filter}`]
}

function cpuSecondsOf({ cpuMs }: SandboxLimits): number {
  return Math.ceil(cpuMs / 1_000) + spareSeconds
}

/** Prepares an engine for sandboxes: finds the image, sweeps what dead owners left, claims uids. */
export async function prepareContainers(options: ContainerHostOptions): Promise<PreparedHost> {
  const { kind, languages, signal, hasOwnKernel, processors, initCommand = initOverStdio } = options
  const root = await openSandboxRoot(options.root === undefined ? {} : { folder: options.root })
  const closers: (() => Promise<unknown>)[] = [root.close]
  const close = async (): Promise<void> => {
    for (const one of closers.reverse()) await one()
  }
  try {
    const engine = await options.open({ owner: root.owner, folder: root.run }, signal)
    closers.push(engine.close)
    const image = await engine.image(options.image, signal)
    const contents = imageContents(image)
    const sweeping = sweepEngine(engine)
    closers.push(sweeping.close)
    await sweeping.first(signal)
    // Their folders and claims of uids after their containers, because no process removes them when an owner is killed.
    await sweep(root.folder)
    const uids = await claimUids(root)
    closers.push(uids.close)
    // A paused init does not see the end of its owner; the sweep does, but it cannot tell who is dead on another machine.
    const mayPause = options.pause && engine.isLocal
    const enforced = enforcedBy(kind, engine, hasOwnKernel)
    const hasSockets = engine.isLocal && mayGiveAway(root.run, uids)
    let isTrying = hasOwnKernel
    const host: PreparedHost = {
      version: versionOf(engine, options, image),
      image: image.digest,
      enforced,
      outdated: engine.outdated,
      found: imageLanguages(contents, languages, kind),
      refuses: (spec) => refusalOf(spec, engine, enforced, { hasSockets, reachesSockets }),
      plan(id, spec): PlannedSandbox {
        const { uid, egressFolder } = givenTo(uids, spec, join(root.run, `e-${id}`))
        const filter = spec.strict === true ? 'strict' : 'base'
        const container: ContainerSpec = {
          id,
          owner: root.owner,
          image: image.digest,
          ...(options.runtime === undefined ? {} : { runtime: options.runtime }),
          command: initCommand(filter),
          filter,
          uid,
          memoryBytes: spec.limits.memoryBytes,
          pids: spec.limits.pids + ownProcesses + (hasOwnKernel ? kernelThreads : 0),
          processors,
          diskBytes: spec.limits.diskBytes,
          openFiles,
          // The runs of a session share their interpreter; a kernel of the sandbox's own may not have this limit.
          ...(hasOwnKernel || spec.session === true ? {} : { cpuSeconds: cpuSecondsOf(spec.limits) }),
          // The trial must start on the kernel of this machine too, or it could not tell.
          hasOwnKernel: hasOwnKernel && !isTrying,
          ...(egressFolder === undefined ? {} : { egressFolder }),
        }
        return {
          enforced,
          uid,
          ...(egressFolder === undefined ? {} : { egressFolder }),
          counted: engine.isLocal,
          inside: {
            workspace: '/work',
            node: '/gantry/node',
            drivers: '/gantry/drivers',
            languages,
            env: {
              ...basicEnvironment('/work'),
              ...(spec.network === 'none' ? {} : egressEnvironment(spec.network.allow)),
            },
            rlimits: options.uidProcesses === undefined ? {} : limitsByUid(container, options.uidProcesses),
            watch: watchOf(spec, enforced),
          },
          launch: (launch) =>
            launchContainer(engine, container, { ...launch, limits: spec.limits, mayPause, onLocal: sweeping.rest }),
          release: () => {
            uids.release(uid)
            // The proxy may remove its socket at the same time; what is left goes with the run folder.
            if (egressFolder !== undefined)
              rm(egressFolder, { recursive: true, force: true, maxRetries: 5 }).catch(() => undefined)
          },
        }
      },
      close,
    }
    const has = (path: string): boolean => (path === '/gantry/node' ? contents.hasNode : contents.programs.has(path))
    const machine = engine.isLocal ? kernelOfThisMachine() : kernelOf(engine)
    const trial = isTrying ? await tryOwnKernel({ plan: host.plan, machine, hasSockets, has }, signal) : undefined
    isTrying = false
    if (trial !== undefined && trial.kernel !== 'own') throw notOwnKernel(trial.kernel, engine, options)
    const reachesSockets = trial?.reachesSockets ?? true
    return host
  } catch (error) {
    await close()
    throw error
  }
}

/**
 * Removes the containers of dead owners. The socket of an engine may be forwarded from another machine, whose owners have
 * another boot id and are alive: those count as dead only when a container's process was seen on this machine.
 */
export function sweepEngine(engine: Pick<ContainerEngine, 'isLocal' | 'sweep'>): {
  first(signal: AbortSignal): Promise<void>
  /** Begins what is left for when the engine is certainly here; once. */
  rest(): void
  close(): Promise<void>
} {
  const closing = new AbortController()
  let rest: Promise<unknown> | undefined
  const isDead = (isHere: boolean) => (owner: string) => stateOf(owner, { isHere }) === 'dead'
  return {
    async first(signal) {
      if (engine.isLocal) await engine.sweep(isDead(false), signal)
    },
    rest() {
      rest ??= engine.sweep(isDead(true), closing.signal).catch(() => undefined)
    },
    async close() {
      closing.abort()
      await rest
    },
  }
}

function kernelOf({ kernelRelease: release }: ContainerEngine): EngineKernel {
  return release === undefined ? {} : { release }
}

/** A runtime that promises a kernel of its own must be seen to have one, whatever the engine's configuration calls it. */
function notOwnKernel(
  kernel: Exclude<KernelFound, 'own'>,
  { version, isLocal }: ContainerEngine,
  { kind, runtime = 'default' }: ContainerHostOptions,
): ToolError {
  const machine = isLocal ? 'this machine' : "the engine's machine"
  const what = `The OCI runtime ${JSON.stringify(runtime)} of ${version}`
  if (kernel === 'host') {
    const reason = `${what} runs programs on the kernel of ${machine}, which ${kind} must not.`
    return unavailable(reason, "Let the runtime in the engine's configuration name the right program.")
  }
  const reason = `${what} shows no kernel of its own, which ${kind} requires: a program in it could not print its kernel.`
  return unavailable(reason, 'Use an image that `gantry runtime build` made, and look at the log of the engine.')
}

function versionOf(engine: ContainerEngine, { runtime }: ContainerHostOptions, { digest }: ContainerImage): string {
  const arch = process.arch === 'arm64' ? 'arm64' : 'x64'
  const parts = [
    engine.version,
    ...(runtime === undefined ? [] : [`runtime ${runtime}`]),
    `image ${digest.slice(0, 19)}`,
  ]
  return [...parts, `filter ${filterHash(arch, 'base').slice(0, 12)}`].join(', ')
}

/** A uid for a sandbox, and where it has a network the folder of its proxy, which belongs to that uid. */
function givenTo(
  uids: Uids,
  { network }: SandboxSpec,
  folder: string,
): { readonly uid: number; readonly egressFolder?: string } {
  const uid = uids.next()
  if (network === 'none') return { uid }
  try {
    return { uid, egressFolder: makeEgressFolder(folder, uid) }
  } catch (error) {
    uids.release(uid)
    throw error
  }
}

function makeEgressFolder(folder: string, uid: number): string {
  mkdirSync(folder, { mode: 0o700 })
  try {
    chownSync(folder, uid, uid)
  } catch (error) {
    rmSync(folder, { recursive: true, force: true })
    throw error
  }
  return folder
}

/** What no specification of a pod can say, set for each program; each pod has a uid of its own. The init has set `core`. */
function limitsByUid(container: ContainerSpec, uidProcesses: number): { readonly [name: string]: number } {
  const { core: _, ...limits } = ulimitsOf(container)
  return { ...limits, nproc: container.pids - ownProcesses + uidProcesses }
}

/** Whether this process may give a folder to the uid of a sandbox, for which it must be root. */
function mayGiveAway(run: string, uids: Uids): boolean {
  const uid = uids.next()
  try {
    rmSync(makeEgressFolder(join(run, 'e-trial'), uid), { recursive: true })
    return true
  } catch (error) {
    if (codeOf(error) !== 'EPERM') throw error
    return false
  } finally {
    uids.release(uid)
  }
}

interface ContainerLaunch extends Pick<LaunchOptions, 'signal' | 'startMs' | 'ahead'> {
  readonly limits: SandboxLimits
  /** Whether the sandbox may be paused while it waits. */
  readonly mayPause: boolean
  /** Called when the container's process is seen on this machine. */
  onLocal(): void
}

/** Starts a container and connects to its init; the contract is that of `startLauncher`. */
async function launchContainer(
  engine: ContainerEngine,
  spec: ContainerSpec,
  { signal, startMs, ahead, limits, mayPause, onLocal }: ContainerLaunch,
): Promise<Launched> {
  const isAhead = engine.writesAhead === true && ahead !== undefined
  const container = await engine.start(isAhead ? { ...spec, ahead } : spec, signal)
  const sources = container.pid === undefined ? undefined : cgroupSources(container.pid)
  if (container.pid !== undefined) onLocal()
  const supervisor = superviseContainer(container, sources, limits)
  const init = connectInit(container.channel, supervisor.kill)
  const timer = setTimeout(supervisor.kill, startMs)
  const leave = onAbort(signal, supervisor.kill)
  const failure = async (): Promise<ToolError> => {
    const { message } = await supervisor.ended
    const said = init.fault()?.message ?? message ?? 'The init gave no reason.'
    return new ToolError('SANDBOX_INIT_FAILED', `The container did not start. ${said}`)
  }
  const launched = launchedOf(
    {
      pid: container.pid ?? 0,
      supervisor,
      // The end of a container's stdin means that its owner is gone, so it stays open until the run has ended.
      init: { ...init, hangUp: () => undefined, ...(isAhead ? { start: () => undefined } : {}) },
      hold: () => undefined,
    },
    failure,
  )
  try {
    if (sources !== undefined && countsSocketBuffers(engine)) limitSocketBuffers(sources, limits.memoryBytes)
    await Promise.race([init.ready, supervisor.ended])
    signal.throwIfAborted()
    if (!init.isReady()) throw await failure()
    // Without its groups nothing would watch the time and the memory that it uses.
    if (engine.isLocal && sources === undefined) {
      const reason = `The control groups of the container cannot be read under /sys/fs/cgroup: ${container.pid === undefined ? 'its process is not among those of this machine' : 'they are not mounted'}.`
      throw unavailable(reason, unreadableGroupsRemedy)
    }
    const { pausing, pid } = container
    const local = pid === undefined ? undefined : localProcess(pid)
    return {
      ...launched,
      memoryBytes: () => memoryOf(sources),
      ...killOf(container, local),
      ...(mayPause && pausing !== undefined ? { pausing } : {}),
    }
  } catch (error) {
    supervisor.kill()
    await supervisor.ended
    throw error
  } finally {
    leave()
    clearTimeout(timer)
  }
}

function killOf(container: Container, local: LocalProcess | undefined): Pick<Launched, 'kill'> {
  if (local !== undefined) return { kill: () => killed(local) }
  return container.kill === undefined ? {} : { kill: container.kill }
}

const unreadableGroupsRemedy =
  'Run Gantry on the machine of the engine. In a container give it the process ids of the host (`--pid=host`) and its /sys/fs/cgroup; name an engine on another machine by `host`.'

/** Longer than the kernel takes to end what is in a container; the engine does it then. */
const killedMs = 200

/** Kills without the engine, which takes many times as long to remove a container as the kernel to end its processes. */
async function killed(local: LocalProcess): Promise<boolean> {
  if (!local.kill()) return false
  const until = performance.now() + killedMs
  while (!local.hasEnded()) {
    if (performance.now() > until) return false
    await pause(1)
  }
  return true
}

function memoryOf(sources: CgroupSources | undefined): number | undefined {
  const used = sources && readMemory(sources)
  return used === undefined ? undefined : used + shimBytes
}
