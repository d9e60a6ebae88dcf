import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { PlannedSandbox, PreparedHost } from '@gantry/sandbox/internal/drivers/launcher-runtime'
import type { Languages } from '@gantry/sandbox/internal/languages/languages'
import { launcherBinary } from '@gantry/sandbox/internal/launcher/binary'
import type { Inside } from '@gantry/sandbox/internal/launcher/launch-job'
import type { Launched, LaunchOptions, LaunchPlan } from '@gantry/sandbox/internal/launcher/launcher'
import { createPlanner, type Planned, type Planner } from '@gantry/sandbox/internal/process/planner'
import { filterHash } from '@gantry/sandbox/internal/process/seccomp/filters'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import { imageContents, imageLanguages } from '@gantry/sandbox-containers/internal/images/image-contents'
import { findImage, type MachineImage } from '../images/image-store.ts'
import { confinement, findHypervisor, type Hypervisor } from './hypervisor.ts'
import { launchedMachine, startMachine } from './machine.ts'
import {
  aheadOf,
  bootMs,
  enforcedBy,
  insideOf,
  machineBytes,
  machineSpec,
  mebibyte,
  readyMachine,
  refusalOf,
  trialLimits,
} from './machine-plan.ts'
import {
  type Accelerator,
  controlName,
  descriptors,
  insidePaths,
  type MachineShape,
  type MachineStart,
  qemuArguments,
} from './qemu-arguments.ts'
import { type ControlSocket, ignoreShared, listenForControl } from './qmp.ts'
import { type BootedMachine, createSnapshots, giveFolder, type Snapshot, type Snapshots } from './snapshots.ts'

export interface MachineHostOptions {
  readonly kind: string
  readonly languages: Languages
  /** The name of a flavour, or a digest. */
  readonly image: string
  /** Where images are. */
  readonly store: string
  /** The program; found by its name when absent. */
  readonly program?: string
  /** `auto` is KVM where a machine starts with it, and emulation everywhere else. */
  readonly accelerator: Accelerator | 'auto'
  readonly processors: number
  /** Whether machines begin as snapshots; each boots when false. */
  readonly snapshots: boolean
  /** Where folders of machines are; a private folder under the system's temporary one when absent. */
  readonly root?: string
  readonly signal: AbortSignal
}

/** QEMU itself, with what it translates. */
const hypervisorBytes = 192 * mebibyte

/** Prepares this machine for virtual machines: finds QEMU and the image, sweeps what dead owners left, claims uids. */
export async function prepareMachines(options: MachineHostOptions): Promise<PreparedHost> {
  const { kind, languages, signal, store, root } = options
  const { path: launcher } = await launcherBinary()
  const hypervisor = await findHypervisor(options.program, signal)
  const image = await findImage(store, options.image)
  const contents = imageContents(image)
  const planner = await createPlanner({
    launcher,
    processors: options.processors,
    signal,
    ...(root === undefined ? {} : { sandboxRoot: root }),
  })
  const enforced = enforcedBy(planner)
  const folder = join(planner.folder, 'snapshots')
  mkdirSync(folder, { mode: 0o711 })
  const snapshots = createSnapshots({ launcher, folder })
  const base: Parts = {
    options,
    accelerator: 'tcg',
    launcher,
    hypervisor,
    image,
    planner,
    folder,
    confined: await confinement(planner.bubblewrap, hypervisor.program, image.folder),
    snapshots: options.snapshots ? snapshots : undefined,
  }
  const close = async (): Promise<void> => {
    await snapshots.close()
    await planner.close()
  }
  const accelerator = await chooseAccelerator(base, signal).catch(async (error: unknown) => {
    await close()
    throw error
  })
  const parts: Parts = { ...base, accelerator }
  return {
    version: versionOf(accelerator, hypervisor, image),
    image: image.digest,
    enforced,
    found: imageLanguages(contents, languages, kind),
    refuses: (spec) => refusalOf(spec) ?? planner.refuses(machineSpec(spec, hypervisorBytes)),
    plan: (id, spec) => planMachine(parts, id, spec, enforced),
    close,
  }
}

interface Parts {
  readonly options: MachineHostOptions
  readonly accelerator: Accelerator
  readonly launcher: string
  readonly hypervisor: Hypervisor
  readonly image: MachineImage
  readonly planner: Planner
  /** Where folders of machines that start are. */
  readonly folder: string
  /** The command that a hypervisor is started by, as far as it is the same for all. */
  readonly confined: readonly [string, ...string[]]
  /** Undefined where every machine boots. */
  readonly snapshots: Snapshots | undefined
}

function planMachine(parts: Parts, id: string, spec: SandboxSpec, enforced: Outcome['enforced']): PlannedSandbox {
  const { planner } = parts
  const planned = planner.plan(id, machineSpec(spec, hypervisorBytes))
  const inside = insideOf(spec, parts.options.languages)
  const counted = planned.plan.cgroups.watches.some(({ limit }) => limit === 'cpuMs')
  return {
    enforced,
    counted,
    inside,
    launch: (launch) => launchMachine(parts, planned, { ...launch, id, spec, inside }),
    release: planned.release,
  }
}

interface MachineLaunch extends Pick<LaunchOptions, 'signal' | 'startMs'> {
  readonly id: string
  readonly spec: SandboxSpec
  readonly inside: Inside
}

async function launchMachine(
  parts: Parts,
  planned: Planned,
  { id, spec, inside, signal, startMs }: MachineLaunch,
): Promise<Launched> {
  const { snapshots, launcher } = parts
  const { limits } = spec
  const shape = shapeOf(parts, spec)
  if (snapshots === undefined) {
    const plan = confinedPlan(parts, planned.plan, shape, 'boot')
    const machine = await startMachine({ launcher, plan, limits, startMs: bootMs, signal })
    return readyMachine(machine, signal)
  }
  const { accelerator, hypervisor, image } = parts
  const snapshot = await snapshots.get(
    {
      key: [image.digest, hypervisor.version, accelerator, ...Object.values(shape), spec.session === true],
      memoryBytes: shape.memoryBytes,
      ahead: aheadOf(spec, inside),
      boot: (at, given) => bootForSnapshot(parts, shape, spec, at, given),
    },
    signal,
  )
  return restoreMachine(parts, planned, snapshot, { id, shape, limits, startMs, signal })
}

interface Restoring extends Pick<LaunchOptions, 'signal' | 'startMs'> {
  readonly id: string
  readonly shape: MachineShape
  readonly limits: SandboxLimits
}

async function restoreMachine(
  parts: Parts,
  { plan: planned }: Planned,
  { memory, state, ahead }: Snapshot,
  { id, shape, limits, startMs, signal }: Restoring,
): Promise<Launched> {
  const { launcher, folder: parent } = parts
  const folder = join(parent, `m-${id}`)
  mkdirSync(folder, { mode: 0o700 })
  let socket: ControlSocket | undefined
  try {
    socket = await listenForControl(join(folder, controlName))
    giveFolder(folder, planned.uid)
    const plan = confinedPlan(parts, planned, shape, 'restore', ['--bind', folder, insidePaths.control])
    const accepted = socket.accepted
    const restore = async (given: AbortSignal): Promise<void> => {
      const control = await accepted(given)
      await ignoreShared(control)
      await control.execute('migrate-incoming', { uri: `fd:${descriptors.state}` })
      await control.execute('cont')
    }
    const machine = await startMachine({ launcher, plan, memory, state, restore, limits, startMs, signal })
    machine.link.resume(ahead)
    return launchedMachine(machine)
  } finally {
    socket?.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

function shapeOf({ options, accelerator, hypervisor }: Parts, { limits, strict }: SandboxSpec): MachineShape {
  const { processors } = options
  const { processorMhz } = hypervisor
  const filter = strict === true ? 'strict' : 'base'
  return { accelerator, memoryBytes: machineBytes(limits), processors, filter, processorMhz }
}

/** The plan of a sandbox's processes with QEMU in place of an init; its channel becomes that of the guest. */
function confinedPlan(
  { confined, hypervisor }: Parts,
  { seccompFile: _, epollWatches: __, ...plan }: LaunchPlan,
  shape: MachineShape,
  start: MachineStart,
  binds: readonly string[] = [],
): LaunchPlan {
  const watches = plan.cgroups.watches.filter(({ limit }) => limit !== 'pids')
  const device = shape.accelerator === 'kvm' ? ['--dev-bind', kvmDevice, kvmDevice] : []
  const argv = [...confined, ...binds, ...device, '--chdir', '/', hypervisor.program, ...qemuArguments(shape, start)]
  // The limit of programs is the guest's; threads of QEMU are no processes of theirs.
  const group = shape.accelerator === 'kvm' && plan.uid !== undefined ? { gid: statSync(kvmDevice).gid } : {}
  return { ...plan, ...group, cgroups: { ...plan.cgroups, watches }, argv: argv as [string, ...string[]] }
}

async function bootForSnapshot(
  parts: Parts,
  shape: MachineShape,
  spec: SandboxSpec,
  { memory, folder }: { readonly memory: number; readonly folder: string },
  signal: AbortSignal,
): Promise<BootedMachine> {
  const { planner, launcher } = parts
  const planned = planner.plan(randomBytes(9).toString('base64url'), machineSpec(spec, hypervisorBytes))
  try {
    giveFolder(folder, planned.plan.uid)
    const binds = ['--bind', folder, insidePaths.control]
    const plan = confinedPlan(parts, planned.plan, shape, 'boot for a snapshot', binds)
    const { limits } = spec
    const machine = await startMachine({ launcher, plan, memory, limits, startMs: bootMs, signal })
    return { machine, inside: insidePaths.control, release: planned.release }
  } catch (error) {
    planned.release()
    throw error
  }
}

const kvmDevice = '/dev/kvm'
/** A machine with KVM starts in well under a second; one that hangs never does. */
const kvmTrialMs = 10_000

/** `/dev/kvm` may be there and refuse, or hang, so that only a machine that started with it proves that it works. */
async function chooseAccelerator(parts: Parts, signal: AbortSignal): Promise<Accelerator> {
  const { accelerator: wanted } = parts.options
  if (wanted === 'tcg' || (wanted === 'auto' && !existsSync(kvmDevice))) return 'tcg'
  try {
    await tryKvm({ ...parts, accelerator: 'kvm' }, signal)
    return 'kvm'
  } catch (error) {
    signal.throwIfAborted()
    if (wanted === 'auto') return 'tcg'
    const said = error instanceof Error ? error.message : String(error)
    const remedy =
      'Load the module of KVM and let its group use /dev/kvm, or set `runtimes.qemu.accelerator` to "auto".'
    throw unavailable(`A machine with KVM does not start here within ${kvmTrialMs} ms. ${said}`, remedy, error)
  }
}

async function tryKvm(parts: Parts, signal: AbortSignal): Promise<void> {
  const { planner, launcher } = parts
  if (!existsSync(kvmDevice)) throw unavailable('There is no /dev/kvm.', 'Load the module of KVM.')
  const limits = trialLimits(kvmTrialMs)
  const spec: SandboxSpec = { limits, network: 'none' }
  const planned = planner.plan(randomBytes(9).toString('base64url'), machineSpec(spec, hypervisorBytes))
  try {
    const plan = confinedPlan(parts, planned.plan, shapeOf(parts, spec), 'boot')
    const machine = await startMachine({ launcher, plan, limits, startMs: kvmTrialMs, signal })
    machine.supervisor.kill()
    await machine.supervisor.ended
  } finally {
    planned.release()
  }
}

function versionOf(accelerator: Accelerator, { version }: Hypervisor, image: MachineImage): string {
  const parts = [`QEMU ${version} ${accelerator}`, `kernel ${image.kernel}`, `image ${image.digest.slice(0, 19)}`]
  return [...parts, `filter ${filterHash('x64', 'base').slice(0, 12)}`].join(', ')
}
