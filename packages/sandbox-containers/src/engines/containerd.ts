import { existsSync, lstatSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { createPipeStock, openPipes, type PipeStock } from './container-pipes.ts'
import { labelsOf, ownerLabel } from './container-policy.ts'
import {
  createRemover,
  isOfContainer,
  killGroup,
  localProcess,
  type RemoveOnce,
  type Remover,
} from './container-removal.ts'
import type { Any, Mount } from './containerd-api.ts'
import {
  type ContainerdAddress,
  type ContainerdClient,
  ContainerdError,
  containerdRefusal,
  containerdText,
  createContainerdClient,
  isPresent,
  mayHaveReached,
} from './containerd-client.ts'
import { absentContainerdImage, type FoundImage, findContainerdImage } from './containerd-image.ts'
import { unavailable } from './docker-client.ts'
import type { Container, ContainerEnd, ContainerEngine, ContainerSpec } from './engine.ts'
import { ociSpec } from './oci-spec.ts'
import { askOciProgram, checkOci, type OciProgram } from './oci-versions.ts'

/** The OCI runtime of a container, as containerd starts it. */
export interface ContainerdRuntime {
  /** Such as `io.containerd.runc.v2`. */
  readonly name: string
  /** The program that this runtime calls in place of runc. */
  readonly binary?: string
}

export interface ContainerdEngineOptions {
  readonly address: ContainerdAddress
  readonly runtime: ContainerdRuntime
  readonly snapshotter: string
  /** The program that the OCI runtime must be, where only it gives the isolation. */
  readonly program?: string
  readonly owner: string
  /** A private folder for the pipes of containers, which the caller removes. */
  readonly folder: string
}

/** Snapshots of containerd that no container and no image refers to are collected, unless they say that they are a root. */
const rootLabel = 'containerd.io/gc.root'
const killSignal = 9

/** containerd by its gRPC API. Rejects with RUNTIME_UNAVAILABLE when it cannot be used. */
export async function openContainerd(options: ContainerdEngineOptions, signal: AbortSignal): Promise<ContainerEngine> {
  const client = await createContainerdClient(options.address)
  try {
    const { version } = await client.call('version.v1.Version/Version', {}, { signal })
    const at = `containerd at ${containerdText(options.address)}`
    const oci = checkOci(at, await ociProgramOf(options.runtime, signal), options.program)
    return containerdEngine(client, `containerd ${version}, ${oci.text}`, oci.isKnown, options)
  } catch (error) {
    client.close()
    throw containerdRefusal(error, options.address)
  }
}

/** What containers of one engine share. */
interface Connection {
  readonly client: ContainerdClient
  readonly options: ContainerdEngineOptions
  readonly remover: Remover
  readonly pipes: PipeStock
  /** The root file system of an image, by its digest. */
  rootOf(digest: string, signal: AbortSignal): Promise<readonly Mount[]>
}

/** The folders in which containerd's shim looks for runc, as a service of the system has them. */
const programFolders = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin']

/** The program behind an OCI runtime, asked itself; undefined for a shim that calls none. */
async function ociProgramOf({ name, binary }: ContainerdRuntime, signal: AbortSignal): Promise<OciProgram | undefined> {
  if (binary !== undefined) return askOciProgram(binary, signal)
  if (!name.startsWith('io.containerd.runc.')) return undefined
  const path = programFolders.map((folder) => join(folder, 'runc')).find((file) => existsSync(file))
  return path === undefined ? undefined : askOciProgram(path, signal)
}

function containerdEngine(
  client: ContainerdClient,
  version: string,
  hasKnownRuntime: boolean,
  options: ContainerdEngineOptions,
): ContainerEngine {
  const { snapshotter, owner } = options
  const remover = containerdRemover(client)
  const images = new Map<string, FoundImage>()
  const roots = new Map<string, Promise<readonly Mount[]>>()
  /** The images whose view was asked for, whether it was used or not. */
  const views = new Set<string>()
  const refuse = (error: unknown): never => {
    throw containerdRefusal(error, options.address)
  }
  const outdated = Promise.withResolvers<void>()
  void client.lost.then(outdated.resolve)
  const viewOf = (digest: string): string => `gantry-${owner}-${digest.slice(7, 19)}`

  /** One read-only view of an image serves all containers of this process, because none of them writes to its root. */
  const view = async (digest: string, signal: AbortSignal): Promise<readonly Mount[]> => {
    const image = images.get(digest) ?? (await findContainerdImage(client, snapshotter, digest, signal))
    const labels = { [ownerLabel]: owner, [rootLabel]: new Date().toISOString() }
    const request = { snapshotter, key: viewOf(digest), parent: image.chainId, labels }
    const make = () => client.call('snapshots.v1.Snapshots/View', request, { signal })
    views.add(digest)
    const { mounts } = await make().catch(async (error: unknown) => {
      if (error instanceof ContainerdError && error.kind === 'absent') {
        outdated.resolve()
        throw absentContainerdImage(options.address, digest, error)
      }
      // A request of ours that was not answered in time was carried out all the same.
      if (!(error instanceof ContainerdError) || error.kind !== 'exists') throw error
      await removeSnapshot(client, snapshotter, request.key, signal)
      return make()
    })
    checkMountPoints(mounts)
    return mounts
  }
  const connection: Connection = {
    client,
    options,
    remover,
    pipes: createPipeStock(join(options.folder, 'pipes')),
    rootOf(digest, signal) {
      const known = roots.get(digest)
      if (known !== undefined) return known
      const mounts = view(digest, signal)
      roots.set(digest, mounts)
      mounts.catch(() => roots.delete(digest))
      return mounts
    },
  }
  return {
    version,
    isLocal: true,
    hasKnownRuntime,
    outdated: outdated.promise,
    cgroupVersion: existsSync('/sys/fs/cgroup/cgroup.controllers') ? 2 : 1,
    writesAhead: true,
    async image(name, signal) {
      const found = await findContainerdImage(client, snapshotter, name, signal).catch(refuse)
      images.set(found.digest, found)
      return found
    },
    start: (spec, signal) => startContainer(connection, spec, signal),
    sweep: (isDead, signal) => sweepContainerd(client, snapshotter, remover, isDead, signal).catch(refuse),
    async close() {
      await remover.close()
      const signal = AbortSignal.timeout(2_000)
      for (const digest of views) {
        await removeSnapshot(client, snapshotter, viewOf(digest), signal).catch(() => undefined)
      }
      client.close()
    },
  }
}

/** Where an OCI runtime mounts; `/tmp` of our images is a link into the workspace. */
const mountPoints = ['proc', 'dev', 'work', 'gantry', 'gantry/egress']

/**
 * An image with a link where the OCI runtime mounts could turn the mount to another place (CVE-2026-41579). Docker covers
 * these paths by a layer of its own; here the root is the image itself, so that the links are looked for.
 */
function checkMountPoints(mounts: readonly Mount[]): void {
  const layers = mounts.flatMap(({ type, source, options }) => {
    if (type !== 'overlay') return [source]
    const lower = options.find((option) => option.startsWith('lowerdir='))
    return lower === undefined ? [] : lower.slice('lowerdir='.length).split(':')
  })
  for (const point of mountPoints) {
    const found = layers.map((layer) => lstatSync(join(layer, point), { throwIfNoEntry: false })).find(Boolean)
    if (found?.isDirectory() === true) continue
    const reason = `The image has ${found === undefined ? 'no folder' : 'something else than a folder'} at /${point}, where the container's own is mounted.`
    throw unavailable(reason, 'Make the image from gantry/sandbox:standard without changing that path.')
  }
}

const never = new AbortController().signal

/** Creates the container and its task, waits for its end, and starts it, in this order, so that no end is missed. */
async function startContainer(connection: Connection, spec: ContainerSpec, signal: AbortSignal): Promise<Container> {
  const { client, options, remover, pipes } = connection
  // containerd allows no `_` and no `-` at the end of an id.
  const containerId = `gantry-${Buffer.from(spec.id).toString('hex')}`
  const taken = await pipes.take(signal)
  let streams: ReturnType<typeof openPipes> | undefined
  let created = false
  try {
    const rootfs = await connection.rootOf(spec.image, signal)
    streams = openPipes(taken)
    const runtime = runtimeOf(options.runtime)
    const container = {
      id: containerId,
      labels: labelsOf(spec),
      image: spec.image,
      runtime,
      spec: {
        type_url: 'types.containerd.io/opencontainers/runtime-spec/1/Spec',
        value: Buffer.from(JSON.stringify(ociSpec(spec, groupOf(client.address, containerId)))),
      },
    }
    await client.call('containers.v1.Containers/Create', { container }, { signal })
    created = true
    // Not cancelled half way, because containerd would leave a shim behind: an abort is seen when it has answered.
    const { pid } = await client.call(
      'tasks.v1.Tasks/Create',
      { containerId, rootfs, ...taken, ...(runtime.options === undefined ? {} : { options: runtime.options }) },
      { signal: never },
    )
    signal.throwIfAborted()
    const waiting = new AbortController()
    const died = endOf(client, containerId, waiting.signal)
    if (spec.ahead !== undefined) streams.channel.write(spec.ahead)
    await client.call('tasks.v1.Tasks/Start', { containerId }, { signal })
    if (keepsStdin(runtime.name)) {
      await client.call('tasks.v1.Tasks/CloseIO', { containerId, stdin: true }, { signal })
    }
    return containerOf(connection, { containerId, pid, died, streams, taken, waiting })
  } catch (error) {
    streams?.channel.destroy()
    // A shim that hangs while it creates the task has processes that containerd does not know yet.
    if (created) killGroup(groupOf(client.address, containerId))
    if (created) await remover.remove(containerId)
    // A request that was sent and not answered may be carried out all the same, when containerd answers again.
    if (!(created && signal.aborted) && mayHaveReached(error)) remover.expect(containerId)
    await pipes.discard(taken)
    signal.throwIfAborted()
    if (ToolError.is(error)) throw error
    const said = error instanceof Error ? error.message : String(error)
    throw new ToolError('SANDBOX_INIT_FAILED', `The container did not start. containerd said: ${said}`, {
      cause: error,
    })
  }
}

/**
 * Whether a shim has the writing end of stdin open in addition to this process, as containerd's own do: unless it closes that, the
 * init does not see the end of its owner. Others would close the stdin of the program itself.
 */
function keepsStdin(runtime: string): boolean {
  return runtime.startsWith('io.containerd.runc.') || runtime.startsWith('io.containerd.runsc.')
}

/** The control group of a container, as containerd's own clients name it. */
function groupOf({ namespace }: ContainerdAddress, containerId: string): string {
  return `/${namespace}/${containerId}`
}

function runtimeOf({ name, binary }: ContainerdRuntime): { readonly name: string; readonly options?: Any } {
  return binary === undefined ? { name } : { name, options: runcOptions(binary) }
}

/** `containerd.runc.v1.Options` with its field 6 alone, the program: the field's key, the length, the text. */
function runcOptions(binary: string): Any {
  const path = Buffer.from(binary)
  const length = path.length < 128 ? [path.length] : [(path.length & 127) | 128, path.length >> 7]
  return { type_url: 'containerd.runc.v1.Options', value: Buffer.concat([Buffer.from([0x32, ...length]), path]) }
}

/** Resolves when the container has exited, or when containerd cannot be asked any more; never rejects. */
async function endOf(client: ContainerdClient, containerId: string, signal: AbortSignal): Promise<ContainerEnd> {
  try {
    const options = { signal, waitMs: Number.POSITIVE_INFINITY }
    const { exitStatus } = await client.call('tasks.v1.Tasks/Wait', { containerId }, options)
    return { kind: 'exited', code: exitStatus }
  } catch (error) {
    // Removed by another party: no process of it lives.
    if (error instanceof ContainerdError && error.kind === 'absent') return { kind: 'exited', code: 255 }
    return { kind: 'lost', reason: `The connection to containerd at ${containerdText(client.address)} was lost.` }
  }
}

interface Started {
  readonly containerId: string
  readonly pid: number
  readonly died: Promise<ContainerEnd>
  readonly streams: ReturnType<typeof openPipes>
  readonly taken: Parameters<PipeStock['discard']>[0]
  /** Ends the request that waits for the end. */
  readonly waiting: AbortController
}

function containerOf({ client, remover, pipes }: Connection, started: Started): Container {
  const { containerId, pid, died, streams, taken, waiting } = started
  const process = isOfContainer(pid, containerId) ? localProcess(pid) : undefined
  let removing: Promise<readonly string[]> | undefined
  const remove = async (): Promise<readonly string[]> => {
    streams.channel.destroy()
    const gone = await remover.remove(containerId, process)
    waiting.abort()
    await pipes.discard(taken)
    return gone ? [] : [`container ${containerId}`]
  }
  return {
    channel: streams.channel,
    pid,
    stderr: streams.stderr,
    // The control group stays until the task is deleted, so that its own count is read.
    isOutOfMemory: () => false,
    died,
    pausing: {
      pause: async (signal) => void (await client.call('tasks.v1.Tasks/Pause', { containerId }, { signal })),
      resume: async (signal) => void (await client.call('tasks.v1.Tasks/Resume', { containerId }, { signal })),
    },
    remove() {
      removing ??= remove()
      return removing
    },
  }
}

/** A remover of containers, for a process that starts none. */
export function containerdRemover(client: ContainerdClient): Remover {
  return createRemover(containerdRemoval(client))
}

/** One try to remove a container: kills everything in it, deletes its task, then itself. */
function containerdRemoval(client: ContainerdClient): RemoveOnce {
  return async (containerId, signal) => {
    try {
      // An OCI runtime says in many ways that nothing is left to kill; what lives all the same is waited for below.
      await client
        .call('tasks.v1.Tasks/Kill', { containerId, signal: killSignal, all: true }, { signal })
        .catch((error: unknown) => {
          if (!(error instanceof ContainerdError)) throw error
        })
      await deleteTask(client, containerId, signal)
      return (await isPresent(client.call('containers.v1.Containers/Delete', { id: containerId }, { signal })))
        ? 'gone'
        : 'absent'
    } catch (error) {
      return error instanceof ContainerdError ? 'refused' : 'unanswered'
    }
  }
}

/** containerd refuses to delete a task that has not ended yet, and the end of a killed one takes milliseconds. */
async function deleteTask(client: ContainerdClient, containerId: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    try {
      await isPresent(client.call('tasks.v1.Tasks/Wait', { containerId }, { signal }))
      await isPresent(client.call('tasks.v1.Tasks/Delete', { containerId }, { signal }))
      return
    } catch (error) {
      if (!(error instanceof ContainerdError) || error.kind !== 'precondition') throw error
      await pause(5, undefined, { signal })
    }
  }
}

async function removeSnapshot(
  client: ContainerdClient,
  snapshotter: string,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  await isPresent(client.call('snapshots.v1.Snapshots/Remove', { snapshotter, key }, { signal }))
}

/** Removes the containers and the views of images of dead owners; resolves with the ids of the containers. */
export async function sweepContainerd(
  client: ContainerdClient,
  snapshotter: string,
  remover: Remover,
  isDead: (owner: string) => boolean,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const filters = [`labels."${ownerLabel}"`]
  const { containers } = await client.call('containers.v1.Containers/List', { filters }, { signal })
  const dead = containers.filter(({ labels }) => isDead(labels[ownerLabel] ?? ''))
  const removed = await Promise.all(dead.map(async ({ id }) => ((await remover.remove(id)) ? [id] : [])))
  const views = (await client.list('snapshots.v1.Snapshots/List', { snapshotter, filters }, { signal })).flatMap(
    ({ info }) => info,
  )
  for (const { name } of views.filter(({ labels }) => isDead(labels[ownerLabel] ?? ''))) {
    // One that is refused, because something still uses it, is left to the next sweep.
    await removeSnapshot(client, snapshotter, name, signal).catch((error: unknown) => {
      if (!(error instanceof ContainerdError)) throw error
    })
  }
  return removed.flat()
}
