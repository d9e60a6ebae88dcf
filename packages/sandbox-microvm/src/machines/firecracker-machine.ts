import { randomBytes } from 'node:crypto'
import { chownSync, mkdirSync } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import type { SandboxLimits } from '@gantry/contract'
import type { LaunchPlan } from '@gantry/sandbox/internal/launcher/launcher'
import type { Planned } from '@gantry/sandbox/internal/process/planner'
import { imageFiles } from '../images/image-store.ts'
import { type FirecrackerApi, openFirecrackerApi } from './firecracker-api.ts'
import { type Firecracker, jailCommand, jailPaths, jailRoot } from './jail.ts'
import { type Machine, startMachine } from './machine.ts'
import { mebibyte } from './machine-plan.ts'
import { connectVsock, guestPort } from './vsock.ts'

/** What machines of one kind are made of. */
export interface FirecrackerParts {
  readonly launcher: string
  readonly bubblewrap: string
  readonly firecracker: Firecracker
  readonly imageFolder: string
  /** Where folders of machines are. */
  readonly folder: string
}

export interface FirecrackerShape {
  readonly memoryBytes: number
  readonly processors: number
  /** The filter of system calls of programs. */
  readonly filter: 'base' | 'strict'
}

/**
 * How a machine begins: from its kernel; from its kernel, so that a snapshot can be taken into a folder; or from the
 * snapshot in a folder.
 */
export type FirecrackerStart =
  | { readonly from: 'kernel' }
  | { readonly from: 'kernel'; readonly into: string }
  | { readonly from: 'snapshot'; readonly folder: string }

export interface FirecrackerMachineOptions {
  readonly planned: Planned
  readonly shape: FirecrackerShape
  readonly start: FirecrackerStart
  readonly limits: SandboxLimits
  readonly startMs: number
  readonly signal: AbortSignal
}

export interface FirecrackerMachine {
  readonly machine: Machine
  /** Saves the machine into the folder that it was started with; it stands still from then on. */
  save(): Promise<void>
  /** Closes what this process holds of the machine's folder; the supervisor removes the folder. Idempotent. */
  release(): Promise<void>
}

/** The files of a snapshot in its folder. */
const snapshotFiles = { state: 'state', memory: 'memory' } as const
/** The jailer copies Firecracker into the jail. */
const programBytes = 64 * mebibyte
/** The number of the guest on the bus of its own machine; the host is 2. */
const guestNumber = 3

/**
 * Starts one Firecracker in a jail of its own and tells it over its socket what to run.
 *
 * | state    | entered when                        | left by                                       |
 * | -------- | ----------------------------------- | --------------------------------------------- |
 * | jailed   | its socket answers                  | the machine's parts, or `PUT /snapshot/load`  |
 * | running  | `InstanceStart`, or `resume_vm`     | the connection to the guest                   |
 * | reached  | the guest accepts the connection    | its first frame                               |
 *
 * Nothing connects to the jail once a program may run, because a hypervisor that was taken over can put links there.
 */
export async function startFirecracker(
  parts: FirecrackerParts,
  { planned, shape, start, limits, startMs, signal }: FirecrackerMachineOptions,
): Promise<FirecrackerMachine> {
  const { firecracker, folder, launcher } = parts
  const base = join(folder, `m-${randomBytes(6).toString('hex')}`)
  const root = jailRoot(firecracker.program, base)
  mkdirSync(root, { recursive: true, mode: 0o711 })
  // A path through a descriptor is short, and the names of sockets may have 107 bytes.
  const opened = await open(root, 'r')
  let api: FirecrackerApi | undefined
  const release = (): Promise<void> => closeOnce(opened)
  const connect = async (given: AbortSignal): Promise<Socket> => {
    api = await openFirecrackerApi(insideJail(opened, jailPaths.api), given)
    await (start.from === 'snapshot' ? load(api) : boot(api, shape))
    return connectVsock(insideJail(opened, jailPaths.vsock), guestPort, given)
  }
  try {
    const plan = await jailedPlan(parts, planned, base, start, shape)
    const machine = await startMachine({ launcher, plan, connect, limits, startMs, signal })
    const save = async (): Promise<void> => {
      if (api !== undefined) await saveMachine(api)
    }
    return { machine, save, release }
  } catch (error) {
    await release()
    throw error
  }
}

/** Closing a closed handle does nothing. */
async function closeOnce(handle: FileHandle): Promise<void> {
  if (handle.fd >= 0) await handle.close()
}

function insideJail(opened: FileHandle, path: string): string {
  return `/proc/self/fd/${opened.fd}${path}`
}

/** The plan of a sandbox's processes with the jailer in place of an init: it changes the user itself. */
async function jailedPlan(
  { bubblewrap, firecracker, imageFolder }: FirecrackerParts,
  { plan: { seccompFile: _, epollWatches: __, uid = 0, gid: ___, ...plan } }: Planned,
  base: string,
  start: FirecrackerStart,
  { memoryBytes }: FirecrackerShape,
): Promise<LaunchPlan> {
  const watches = plan.cgroups.watches.filter(({ limit }) => limit !== 'pids')
  const writes = 'into' in start
  const snapshot = writes
    ? { folder: start.into, writable: true }
    : 'folder' in start
      ? { folder: start.folder, writable: false }
      : undefined
  if (writes) chownSync(start.into, uid, uid)
  const argv = await jailCommand({
    bubblewrap,
    firecracker,
    base,
    imageFolder,
    uid,
    ...(snapshot === undefined ? {} : { snapshot }),
  })
  // The limit on files holds for the jailer's copy of the program, and for a snapshot.
  const fsize = writes ? memoryBytes + programBytes : programBytes
  return {
    ...plan,
    argv,
    cgroups: { ...plan.cgroups, watches },
    rlimits: { ...plan.rlimits, fsize },
    folders: [...plan.folders, base],
  }
}

/** A machine has processors, memory, one disk that it cannot write, random numbers and one channel; no network. */
async function boot(api: FirecrackerApi, { memoryBytes, processors, filter }: FirecrackerShape): Promise<void> {
  const image = (name: string): string => `${jailPaths.image}/${name}`
  await api.put('/machine-config', {
    vcpu_count: processorsOf(processors),
    mem_size_mib: Math.ceil(memoryBytes / mebibyte),
    smt: false,
  })
  await api.put('/boot-source', {
    kernel_image_path: image(imageFiles.kernel),
    initrd_path: image(imageFiles.initramfs),
    boot_args: kernelArguments(filter),
  })
  await api.put('/drives/system', {
    drive_id: 'system',
    path_on_host: image(imageFiles.disk),
    is_root_device: false,
    is_read_only: true,
  })
  await api.put('/vsock', { guest_cid: guestNumber, uds_path: jailPaths.vsock })
  await api.put('/entropy', {})
  await api.put('/actions', { action_type: 'InstanceStart' })
}

/** Firecracker takes one processor or an even number of them. */
function processorsOf(processors: number): number {
  const whole = Math.max(1, Math.ceil(processors))
  return whole === 1 ? 1 : Math.min(32, whole + (whole % 2))
}

function kernelArguments(filter: FirecrackerShape['filter']): string {
  const devices = 'pci=off 8250.nr_uarts=0 i8042.noaux i8042.nomux i8042.dumbkbd'
  const own = `reboot=k panic=-1 ${devices} random.trust_cpu=on quiet loglevel=0 gantry.channel=vsock rdinit=/init`
  return `${own} -- guest /gantry/filters/${filter}`
}

async function load(api: FirecrackerApi): Promise<void> {
  await api.put('/snapshot/load', {
    snapshot_path: `${jailPaths.snapshot}/${snapshotFiles.state}`,
    mem_backend: { backend_type: 'File', backend_path: `${jailPaths.snapshot}/${snapshotFiles.memory}` },
    resume_vm: true,
  })
}

async function saveMachine(api: FirecrackerApi): Promise<void> {
  await api.patch('/vm', { state: 'Paused' })
  await api.put('/snapshot/create', {
    snapshot_type: 'Full',
    snapshot_path: `${jailPaths.snapshot}/${snapshotFiles.state}`,
    mem_file_path: `${jailPaths.snapshot}/${snapshotFiles.memory}`,
  })
}
