import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync } from 'node:fs'
import { chmod, chown, readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import type { Outcome, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import type { PlannedSandbox, PreparedHost } from '@gantry/sandbox/internal/drivers/launcher-runtime'
import type { Languages } from '@gantry/sandbox/internal/languages/languages'
import { launcherBinary } from '@gantry/sandbox/internal/launcher/binary'
import type { Inside } from '@gantry/sandbox/internal/launcher/launch-job'
import type { Launched, LaunchOptions } from '@gantry/sandbox/internal/launcher/launcher'
import { createPlanner, type Planned, type Planner } from '@gantry/sandbox/internal/process/planner'
import { filterHash } from '@gantry/sandbox/internal/process/seccomp/filters'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import { imageContents, imageLanguages } from '@gantry/sandbox-containers/internal/images/image-contents'
import { findImage, type MachineImage } from '../images/image-store.ts'
import { type FirecrackerParts, type FirecrackerShape, startFirecracker } from './firecracker-machine.ts'
import { findFirecracker } from './jail.ts'
import { type KeptSnapshots, keepSnapshots, type SnapshotWish } from './kept-snapshots.ts'
import { launchedMachine } from './machine.ts'
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
import { waitFor } from './snapshots.ts'

export interface FirecrackerHostOptions {
  readonly kind: string
  readonly languages: Languages
  /** The name of a flavour, or a digest. */
  readonly image: string
  /** Where images are. */
  readonly store: string
  /** Found by their names when absent. */
  readonly program?: string
  readonly jailer?: string
  readonly processors: number
  /** Whether machines begin as snapshots; each boots when false. */
  readonly snapshots: boolean
  /** Where folders of machines are; a private folder under the system's temporary one when absent. */
  readonly root?: string
  readonly signal: AbortSignal
}

/** Firecracker itself, and the jailer before it. */
const hypervisorBytes = 64 * mebibyte
const kvmDevice = '/dev/kvm'
/** A machine with KVM starts in well under a second; one that hangs never does. */
const kvmTrialMs = 10_000
const takeMs = 180_000

/** Prepares this machine for Firecracker: finds it and the image, sees a machine start, sweeps what dead owners left. */
export async function prepareFirecracker(options: FirecrackerHostOptions): Promise<PreparedHost> {
  const { kind, languages, signal, store, root, processors } = options
  const { path: launcher } = await launcherBinary()
  const firecracker = await findFirecracker(options, signal)
  const image = await findImage(store, options.image, kind)
  const contents = imageContents(image)
  const planner = await createPlanner({
    launcher,
    processors,
    signal,
    ...(root === undefined ? {} : { sandboxRoot: root }),
  })
  const enforced = enforcedBy(planner)
  const folder = join(planner.folder, 'machines')
  mkdirSync(folder, { mode: 0o711 })
  const { bubblewrap } = planner
  const parts: Parts = { options, image, planner, launcher, bubblewrap, firecracker, imageFolder: image.folder, folder }
  const snapshots = keepSnapshots((wish: Wish, closing) => takeSnapshot(parts, wish, closing))
  const close = async (): Promise<void> => {
    await snapshots.close()
    await planner.close()
  }
  await tryKvm(parts, signal).catch(async (error: unknown) => {
    await close()
    throw error
  })
  return {
    version: versionOf(parts),
    image: image.digest,
    enforced,
    found: imageLanguages(contents, languages, kind),
    refuses: (spec) => refusalOf(spec) ?? planner.refuses(machineSpec(spec, hypervisorBytes)),
    plan: (id, spec) => planMachine(parts, snapshots, id, spec, enforced),
    close,
  }
}

interface Parts extends FirecrackerParts {
  readonly options: FirecrackerHostOptions
  readonly image: MachineImage
  readonly planner: Planner
}

interface Wish extends SnapshotWish {
  readonly shape: FirecrackerShape
  readonly spec: SandboxSpec
}

interface Taken {
  /** Has the files of the snapshot, which only root may change. */
  readonly folder: string
  readonly ahead: Buffer | undefined
  close(): Promise<void>
}

function planMachine(
  parts: Parts,
  snapshots: KeptSnapshots<Wish, Taken>,
  id: string,
  spec: SandboxSpec,
  enforced: Outcome['enforced'],
): PlannedSandbox {
  const planned = parts.planner.plan(id, machineSpec(spec, hypervisorBytes))
  const inside = insideOf(spec, parts.options.languages)
  return {
    enforced,
    counted: planned.plan.cgroups.watches.some(({ limit }) => limit === 'cpuMs'),
    inside,
    launch: (launch) => launchMachine(parts, snapshots, planned, { ...launch, spec, inside }),
    release: planned.release,
  }
}

interface MachineLaunch extends Pick<LaunchOptions, 'signal' | 'startMs'> {
  readonly spec: SandboxSpec
  readonly inside: Inside
}

async function launchMachine(
  parts: Parts,
  snapshots: KeptSnapshots<Wish, Taken>,
  planned: Planned,
  { spec, inside, signal, startMs }: MachineLaunch,
): Promise<Launched> {
  const { limits } = spec
  const shape = shapeOf(parts, spec)
  if (!parts.options.snapshots) {
    const start = { from: 'kernel' } as const
    const booted = await startFirecracker(parts, { planned, shape, start, limits, startMs: bootMs, signal })
    await booted.release()
    return readyMachine(booted.machine, signal)
  }
  const { image, firecracker } = parts
  const key = [image.digest, firecracker.version, ...Object.values(shape), spec.session === true]
  const { folder, ahead } = await snapshots.get({ key, shape, spec, ahead: aheadOf(spec, inside) }, signal)
  const start = { from: 'snapshot', folder } as const
  const restored = await startFirecracker(parts, { planned, shape, start, limits, startMs, signal })
  await restored.release()
  restored.machine.link.resume(ahead)
  return launchedMachine(restored.machine)
}

function shapeOf({ options: { processors } }: Parts, { limits, strict }: SandboxSpec): FirecrackerShape {
  return { memoryBytes: machineBytes(limits), processors, filter: strict === true ? 'strict' : 'base' }
}

/** Boots a machine, lets it wait and has it saved; the files become root's when nothing can write them any more. */
async function takeSnapshot(parts: Parts, { shape, spec, ahead }: Wish, closing: AbortSignal): Promise<Taken> {
  const { signal, leave } = follow(closing, AbortSignal.timeout(takeMs))
  const folder = join(parts.folder, `s-${randomBytes(6).toString('hex')}`)
  mkdirSync(folder, { mode: 0o700 })
  const planned = planTrial(parts, spec)
  try {
    const start = { from: 'kernel', into: folder } as const
    const { limits } = spec
    const booted = await startFirecracker(parts, { planned, shape, start, limits, startMs: bootMs, signal })
    const { machine, save, release } = booted
    try {
      await waitFor(machine, ahead)
      await save()
    } finally {
      machine.supervisor.kill()
      await machine.supervisor.ended
      await release()
    }
    await seal(folder)
  } catch (error) {
    await rm(folder, { recursive: true, force: true })
    throw error
  } finally {
    leave()
    planned.release()
  }
  return { folder, ahead, close: () => rm(folder, { recursive: true, force: true }) }
}

async function seal(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    await chown(join(folder, name), 0, 0)
    await chmod(join(folder, name), 0o444)
  }
  await chown(folder, 0, 0)
  await chmod(folder, 0o755)
}

function planTrial({ planner }: Parts, spec: SandboxSpec): Planned {
  return planner.plan(randomBytes(9).toString('base64url'), machineSpec(spec, hypervisorBytes))
}

/** `/dev/kvm` may be there and refuse, or hang, so that only a machine that started with it proves that it works. */
async function tryKvm(parts: Parts, signal: AbortSignal): Promise<void> {
  const limits = trialLimits(kvmTrialMs)
  const spec: SandboxSpec = { limits, network: 'none' }
  const planned = planTrial(parts, spec)
  try {
    const shape = shapeOf(parts, spec)
    const start = { from: 'kernel' } as const
    const booted = await startFirecracker(parts, { planned, shape, start, limits, startMs: kvmTrialMs, signal })
    booted.machine.supervisor.kill()
    await booted.machine.supervisor.ended
    await booted.release()
  } catch (error) {
    signal.throwIfAborted()
    const device = existsSync(kvmDevice) ? '' : ` There is no ${kvmDevice}.`
    const said = ToolError.is(error) ? ` ${error.message}` : ''
    throw unavailable(
      `A machine of Firecracker does not start here within ${kvmTrialMs} ms.${device}${said}`,
      'Use a machine whose KVM works, or `runtimes.qemu`, which needs none.',
      error,
    )
  } finally {
    planned.release()
  }
}

function versionOf({ firecracker, image }: Parts): string {
  const parts = [`Firecracker ${firecracker.version}`, `kernel ${image.kernel}`, `image ${image.digest.slice(0, 19)}`]
  return [...parts, `filter ${filterHash('x64', 'base').slice(0, 12)}`].join(', ')
}
