import { createHash } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import {
  createRemover,
  type RemoveOnce,
  type Remover,
} from '@gantry/sandbox-containers/internal/engines/container-removal'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import type {
  Container,
  ContainerEngine,
  ContainerImage,
  ContainerSpec,
} from '@gantry/sandbox-containers/internal/engines/engine'
import type { V1Pod } from '@kubernetes/client-node'
import type { Cluster } from '../cluster/cluster.ts'
import { requirePolicy } from './pod-check.ts'
import { podContainer } from './pod-container.ts'
import { containerName, labels, type PodSettings, podName, podOf } from './pod-spec.ts'
import { isSettled, type PodWatch, reasonOf, runningPod, watchPods } from './pod-watch.ts'

export interface PodEngineOptions {
  readonly cluster: Cluster
  readonly owner: string
  readonly settings: PodSettings
}

/** What the image must tell of itself, because the API of a cluster shows no labels of images. */
const contentsFile = '/gantry/contents.json'
/** A pod that runs for this purpose alone needs next to nothing. */
const inspected = { memoryBytes: 33_554_432, diskBytes: 1_048_576, processors: 1, pids: 8, openFiles: 64 }

/** Pods of a cluster as containers of an engine. Rejects with RUNTIME_UNAVAILABLE when it cannot be used. */
export async function openPods(
  { cluster, owner, settings }: PodEngineOptions,
  signal: AbortSignal,
): Promise<ContainerEngine> {
  const version = await cluster.version(signal)
  const ownerLabel = ownerLabelOf(owner)
  const selector = `${labels.owner}=${ownerLabel}`
  await removeEnded(cluster, signal)
  const closing = new AbortController()
  const watched = watchPods(cluster, selector, closing.signal)
  const remover = createRemover(podRemoval(cluster))
  const outdated = Promise.withResolvers<void>()
  return {
    version: `Kubernetes ${version} at ${new URL(cluster.address).host}`,
    // Nodes may be any; what their control groups count is not seen from here.
    isLocal: false,
    cgroupVersion: 1,
    outdated: outdated.promise,
    image: (name, given) => inspectImage(cluster, { ...settings, image: name }, ownerLabel, watched, remover, given),
    start: (spec, given) =>
      startPod(
        { cluster, watched, remover, onAbsentImage: outdated.resolve },
        podOf(spec, settings, ownerLabel),
        spec,
        given,
      ),
    sweep: async () => [],
    async close() {
      await remover.close()
      closing.abort()
    },
  }
}

/** A label has at most 63 characters, and not all that owners are named with. */
export function ownerLabelOf(owner: string): string {
  return createHash('sha256').update(owner).digest('hex').slice(0, 32)
}

/**
 * Pods whose processes have ended belong to nothing that runs: their owner is gone, or is about to remove them itself.
 * Those of agent-sandbox are removed by their claims; without its pod a sandbox would get another one.
 */
async function removeEnded(cluster: Cluster, signal: AbortSignal): Promise<void> {
  const pods = await cluster.listPods(`${labels.sandbox}=true`, signal)
  const ended = pods.filter(
    ({ status, metadata }) =>
      (status?.phase === 'Succeeded' || status?.phase === 'Failed') &&
      metadata?.ownerReferences?.some(({ kind }) => kind === 'Sandbox') !== true,
  )
  for (const { metadata } of ended) await cluster.deletePod(metadata?.name ?? '', signal)
}

interface Connection {
  readonly cluster: Cluster
  /** The image was there at the start, and a node does not find it any more. */
  readonly onAbsentImage: () => void
  readonly watched: PodWatch
  readonly remover: Remover
}

/** Creates the pod, waits until it runs, and connects to its init, which has waited for that. */
async function startPod(
  { cluster, watched, remover, onAbsentImage }: Connection,
  pod: V1Pod,
  spec: ContainerSpec,
  signal: AbortSignal,
): Promise<Container> {
  const name = podName(spec.id)
  try {
    const created = await cluster.createPod(pod, signal)
    if (pod.spec !== undefined) requirePolicy('The pod', pod.spec, created.spec)
    await runningPod(watched, name, onAbsentImage, signal)
    const stream = await cluster.exec(name, containerName, ['/gantry/init', 'bridge'], signal)
    return podContainer(stream, async () => {
      const gone = await remover.remove(name)
      watched.forget(name)
      return gone ? [] : [`pod ${name}`]
    })
  } catch (error) {
    remover.expect(name)
    watched.forget(name)
    signal.throwIfAborted()
    if (ToolError.is(error)) throw error
    const said = error instanceof Error ? error.message : String(error)
    throw new ToolError('SANDBOX_INIT_FAILED', `The pod did not start: ${said}`, { cause: error })
  }
}

/** One try to remove a pod. */
export function podRemoval(cluster: Cluster): RemoveOnce {
  return async (name, signal) => {
    try {
      return (await cluster.deletePod(name, signal)) ? 'gone' : 'absent'
    } catch (error) {
      return ToolError.is(error) &&
        typeof error.details === 'object' &&
        error.details !== null &&
        'status' in error.details
        ? 'refused'
        : 'unanswered'
    }
  }
}

/** Runs the image once to read what it has, and asks the kubelet for its digest. */
async function inspectImage(
  cluster: Cluster,
  settings: PodSettings,
  owner: string,
  watched: PodWatch,
  remover: Remover,
  signal: AbortSignal,
): Promise<ContainerImage> {
  const id = createHash('sha256').update(`${owner}${performance.now()}`).digest('base64url').slice(0, 12)
  const spec: ContainerSpec = {
    id,
    owner,
    image: settings.image,
    filter: 'base',
    command: ['/usr/bin/cat', contentsFile],
    uid: 65_533,
    hasOwnKernel: false,
    ...inspected,
  }
  const name = podName(id)
  try {
    await cluster.createPod(podOf(spec, settings, owner), signal)
    const isOver = (pod: V1Pod | undefined): boolean =>
      pod === undefined || (isSettled(pod) && pod.status?.phase !== 'Running')
    const pod = await watched.until(name, isOver, signal)
    const digest = /sha256:[0-9a-f]{64}/.exec(pod?.status?.containerStatuses?.[0]?.imageID ?? '')?.[0]
    if (pod?.status?.phase !== 'Succeeded' || digest === undefined) {
      const reason = `The image ${JSON.stringify(settings.image)} cannot be used by the cluster: ${reasonOf(pod)}`
      throw unavailable(reason, imageRemedy)
    }
    return { digest, labels: readLabels(await cluster.readLog(name, signal), settings.image) }
  } finally {
    watched.forget(name)
    await remover.remove(name)
  }
}

const imageRemedy =
  'Load an image of `gantry runtime build` into every node (docs/runtimes/kubernetes.md), and name it in runtimes.kubernetes.image.'

function readLabels(text: string, image: string): ContainerImage['labels'] {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) {
      return Object.fromEntries(Object.entries(value).filter(([, one]) => typeof one === 'string'))
    }
  } catch {
    // Reported below.
  }
  throw unavailable(
    `The image ${JSON.stringify(image)} was not made by \`gantry runtime build\`: it has no ${contentsFile}.`,
    imageRemedy,
  )
}
