import { Duplex } from 'node:stream'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'
import { absentImageRemedy } from './absent-image.ts'
import { ownerLabel } from './container-policy.ts'
import {
  createRemover,
  isOfContainer,
  localProcess,
  type Removal,
  type RemoveOnce,
  type Remover,
} from './container-removal.ts'
import { type Watched, type Watcher, watchContainers } from './container-watcher.ts'
import {
  addressText,
  createDockerClient,
  type DockerAddress,
  type DockerClient,
  DockerError,
  engineRefusal,
  mayHaveArrived,
  unavailable,
} from './docker-client.ts'
import { dockerContainer } from './docker-container.ts'
import {
  checkedInfo,
  checkLimits,
  checkRuntime,
  type DockerInfo,
  dockerOciProgram,
  mayTakeSwap,
  unlimited,
} from './docker-info.ts'
import type { Container, ContainerEngine, ContainerImage, ContainerSpec } from './engine.ts'
import { checkOci } from './oci-versions.ts'

export interface DockerEngineOptions {
  readonly address: DockerAddress
  /** The OCI runtime that must be configured in the engine; its default when absent. */
  readonly runtime?: string
  /** The program that the OCI runtime must be, where only it gives the isolation. */
  readonly program?: string
  readonly owner: string
}

/** Docker by its Engine API. Rejects with RUNTIME_UNAVAILABLE when it cannot be used. */
export async function openDocker(options: DockerEngineOptions, signal: AbortSignal): Promise<ContainerEngine> {
  const { address, runtime, program, owner } = options
  const client = createDockerClient(address)
  try {
    const info = checkedInfo(await client.call('GET', '/info', { signal }), address)
    checkRuntime(info, runtime, address)
    checkLimits(info, address)
    const oci = checkOci(
      `Docker at ${addressText(address)}`,
      await dockerOciProgram(client, info, runtime, signal),
      program,
    )
    const reloads = await watchReloads(client, signal)
    const watcher = await watchContainers(client, owner, signal)
    return dockerEngine({ client, watcher, remover: createRemover(dockerRemoval(client)), reloads }, info, oci)
  } catch (error) {
    client.close()
    throw engineRefusal(error, address, signal)
  }
}

/** Sees that the engine ends, or that its configuration was loaded again, by which an OCI runtime may be another program. */
interface Reloads {
  /** Settles its promise: a restart, a reload, or an image that is gone. */
  readonly outdated: PromiseWithResolvers<void>
  close(): Promise<void>
}

async function watchReloads(client: DockerClient, signal: AbortSignal): Promise<Reloads> {
  const outdated = Promise.withResolvers<void>()
  const closing = new AbortController()
  const filters = encodeURIComponent(JSON.stringify({ type: ['daemon'], event: ['reload'] }))
  const path = `/events?filters=${filters}`
  const opening = client.events(path, () => outdated.resolve(), closing.signal)
  const { ended } = await unlessAborted(opening, signal)
  void ended.then(outdated.resolve)
  return {
    outdated,
    async close() {
      closing.abort()
      await ended
    },
  }
}

function dockerEngine(connection: Connection, info: DockerInfo, oci: ReturnType<typeof checkOci>): ContainerEngine {
  const { client, watcher, remover, reloads } = connection
  /** The variables of each image that was found: the engine adds them to a container unless they are taken out. */
  const variables = new Map<string, readonly string[]>()
  return {
    version: `Docker ${info.ServerVersion}, ${oci.text}`,
    hasKnownRuntime: oci.isKnown,
    isLocal: client.address.kind === 'socket',
    cgroupVersion: info.CgroupVersion === '2' ? 2 : 1,
    writesAhead: true,
    ...(typeof info.KernelVersion === 'string' ? { kernelRelease: info.KernelVersion } : {}),
    async image(name, signal) {
      const { env, ...image } = await findImage(client, name, signal)
      variables.set(image.digest, env)
      return image
    },
    mayTakeSwap: mayTakeSwap(info, client.address),
    outdated: reloads.outdated.promise,
    start: (spec, signal) => startContainer(connection, spec, variables.get(spec.image) ?? [], signal),
    sweep: (isDead, signal) => sweepDocker(client, remover, isDead, signal),
    async close() {
      await remover.close()
      await watcher.close()
      await reloads.close()
      client.close()
    },
  }
}

async function findImage(
  client: DockerClient,
  name: string,
  signal: AbortSignal,
): Promise<ContainerImage & { readonly env: readonly string[] }> {
  try {
    const found = await client.call('GET', `/images/${encodeURIComponent(name)}/json`, { signal })
    const { Id, Config } = found as { readonly Id: string; readonly Config?: ImageConfig }
    const [volume] = Object.keys(Config?.Volumes ?? {})
    if (volume !== undefined) throw withVolume(name, volume)
    const env = (Config?.Env ?? []).map((variable) => variable.split('=')[0] ?? '').filter(Boolean)
    return { digest: Id, labels: Config?.Labels ?? {}, env }
  } catch (error) {
    if (!(error instanceof DockerError) || error.status >= 500) throw engineRefusal(error, client.address, signal)
    // 404, or what the engine says to a text that no image can have as its name.
    throw absentImage(client.address, name, error)
  }
}

function absentImage(address: DockerAddress, name: string, cause: unknown): ToolError {
  const reason = `Docker at ${addressText(address)} has no image ${JSON.stringify(name)}.`
  return unavailable(reason, absentImageRemedy(name, 'docker'), cause)
}

interface ImageConfig {
  readonly Labels?: ContainerImage['labels'] | null
  readonly Env?: readonly string[] | null
  readonly Volumes?: object | null
}

/** A volume of an image is on the engine's disk, where no limit of a sandbox holds, and cannot be left out. */
function withVolume(name: string, volume: string): ToolError {
  const reason = `The image ${JSON.stringify(name)} declares the volume ${JSON.stringify(volume)}, which no limit of a sandbox would bound.`
  return unavailable(reason, 'Make the image without VOLUME, or name another one.')
}

/** What containers of one engine share. */
interface Connection {
  readonly client: DockerClient
  readonly watcher: Watcher
  readonly remover: Remover
  readonly reloads: Reloads
}

/** "Your kernel does not support memory limit capabilities or the cgroup is not mounted. Limitation discarded." */
const droppedLimit = /\b(?:memory limit|pids limit|cfs)\b.*\bdiscarded\b/i

/** Creates, attaches and starts, in this order, so that nothing of the init's output is missed. */
async function startContainer(
  connection: Connection,
  spec: ContainerSpec,
  variables: readonly string[],
  signal: AbortSignal,
): Promise<Container> {
  const { client, watcher, remover, reloads } = connection
  const name = `gantry-${spec.id}`
  let id: string | undefined
  try {
    await watcher.connect(signal)
    const created = await client.call('POST', `/containers/create?name=${name}`, {
      signal,
      json: dockerContainer(spec, variables),
    })
    const { Id, Warnings } = created as { readonly Id: string; readonly Warnings?: readonly unknown[] | null }
    id = Id
    const dropped = (Warnings ?? []).find((one) => typeof one === 'string' && droppedLimit.test(one))
    if (dropped !== undefined) throw unlimited('this container', client.address)
    const watched = watcher.watch(id)
    const attached = attachedStream(
      await client.hijack(`/containers/${id}/attach?stream=1&stdin=1&stdout=1&stderr=1`, signal),
    )
    if (spec.ahead !== undefined) attached.channel.write(spec.ahead)
    await client.call('POST', `/containers/${id}/start`, { signal })
    const pid = client.address.kind === 'socket' ? await pidOf(client, id, signal) : undefined
    return containerOf(connection, id, watched, attached, pid)
  } catch (error) {
    if (id !== undefined) await remover.remove(id)
    // A request that was sent and not answered may be carried out all the same, when the engine answers again.
    else if (mayHaveArrived(error)) remover.expect(name)
    signal.throwIfAborted()
    if (id === undefined && error instanceof DockerError && error.status === 404) {
      reloads.outdated.resolve()
      throw absentImage(client.address, spec.image, error)
    }
    if (ToolError.is(error)) throw error
    const said = error instanceof Error ? error.message : String(error)
    throw new ToolError('SANDBOX_INIT_FAILED', `The container did not start. Docker said: ${said}`, { cause: error })
  }
}

async function pidOf(client: DockerClient, id: string, signal: AbortSignal): Promise<number | undefined> {
  const found = (await client.call('GET', `/containers/${id}/json`, { signal })) as {
    readonly State?: { readonly Pid?: number }
  }
  const pid = found.State?.Pid
  return pid === undefined || pid === 0 || !isOfContainer(pid, id) ? undefined : pid
}

function containerOf(
  { client, remover }: Connection,
  id: string,
  watched: Watched,
  { channel, stderr }: ReturnType<typeof attachedStream>,
  pid: number | undefined,
): Container {
  const process = pid === undefined ? undefined : localProcess(pid)
  let removing: Promise<readonly string[]> | undefined
  const remove = async (): Promise<readonly string[]> => {
    channel.destroy()
    const gone = await remover.remove(id, process)
    watched.forget()
    return gone ? [] : [`container ${id}`]
  }
  return {
    channel,
    pid,
    stderr,
    isOutOfMemory: watched.isOutOfMemory,
    died: watched.died,
    pausing: {
      async pause(signal) {
        await client.call('POST', `/containers/${id}/pause`, { signal })
      },
      async resume(signal) {
        await client.call('POST', `/containers/${id}/unpause`, { signal })
      },
    },
    remove() {
      removing ??= remove()
      return removing
    },
  }
}

/** Removes the containers of dead owners; resolves with their ids. */
export async function sweepDocker(
  client: DockerClient,
  remover: Remover,
  isDead: (owner: string) => boolean,
  signal: AbortSignal,
): Promise<string[]> {
  const filters = encodeURIComponent(JSON.stringify({ label: [ownerLabel] }))
  const found = (await client.call('GET', `/containers/json?all=1&filters=${filters}`, { signal })) as readonly {
    readonly Id: string
    readonly Labels: { readonly [name: string]: string }
  }[]
  const dead = found.filter(({ Labels }) => isDead(Labels[ownerLabel] ?? ''))
  const removed = await Promise.all(dead.map(async ({ Id }) => ((await remover.remove(Id)) ? [Id] : [])))
  return removed.flat()
}

/** One try to remove a container from Docker. */
export function dockerRemoval(client: DockerClient): RemoveOnce {
  return async (id, signal) => {
    try {
      await client.call('DELETE', `/containers/${id}?force=1&v=1`, { signal })
      return 'gone'
    } catch (error) {
      if (!(error instanceof DockerError)) return 'unanswered'
      if (error.status === 404) return 'absent'
      return error.status === 409 ? await removedByEngine(client, id, signal) : 'refused'
    }
  }
}

/**
 * "removal of container … is already in progress": the engine removes it by itself, because of AutoRemove. Until it has,
 * the container still holds its image and its mounts.
 */
async function removedByEngine(client: DockerClient, id: string, signal: AbortSignal): Promise<Removal> {
  try {
    const end = await client.call('POST', `/containers/${id}/wait?condition=removed`, { signal })
    const { Error: failure } = (end ?? {}) as { readonly Error?: { readonly Message?: string } | null }
    return failure === undefined || failure === null ? 'gone' : 'refused'
  } catch (error) {
    return error instanceof DockerError && error.status === 404 ? 'gone' : 'refused'
  }
}

/** Bytes before each piece: the stream's number, three zeros, and the length. */
const headBytes = 8
/** What is kept of stderr: the reason why an init did not start is its last line. */
const mostStderr = 4_096

/** The init's channel over an attached connection, whose output the engine has multiplexed. */
export interface AttachedStream {
  /** Stdin and stdout of the container. */
  readonly channel: Duplex
  stderr(): string
}

/**
 * Takes the streams of a container apart. A piece of stdout is passed on as it comes, without waiting for its end.
 * Anything that is not a piece destroys the channel, because the position in the stream is lost.
 */
export function attachedStream(connection: Duplex): AttachedStream {
  let head = Buffer.alloc(0)
  let stream = 0
  let left = 0
  let stderr = ''

  const take = (chunk: Buffer): void => {
    let at = 0
    while (at < chunk.length) {
      if (left === 0) {
        const more = chunk.subarray(at, at + headBytes - head.length)
        at += more.length
        head = Buffer.concat([head, more])
        if (head.length < headBytes) return
        stream = head[0] ?? 0
        left = head.readUInt32BE(4)
        head = Buffer.alloc(0)
        if (stream !== 1 && stream !== 2) {
          channel.destroy(new Error('The engine sent a piece of an unknown stream.'))
          return
        }
        continue
      }
      const piece = chunk.subarray(at, at + left)
      at += piece.length
      left -= piece.length
      if (stream === 2) stderr = (stderr + piece.toString('latin1')).slice(-mostStderr)
      else if (!channel.push(piece)) connection.pause()
    }
  }
  const channel = new Duplex({
    read: () => void connection.resume(),
    write: (chunk, _, done) => void connection.write(chunk, done),
    final: (done) => void connection.end(done),
    destroy: (error, done) => {
      connection.destroy()
      done(error)
    },
  })
  connection.on('data', take)
  connection.on('end', () => channel.push(null))
  connection.on('error', () => undefined)
  connection.on('close', () => channel.destroy())
  channel.on('error', () => undefined)
  return { channel, stderr: () => stderr.trim() }
}
