import { sharedMemoryBytes } from '@gantry/sandbox-containers/internal/engines/container-policy'
import type { ContainerSpec } from '@gantry/sandbox-containers/internal/engines/engine'
import type { V1Container, V1Pod, V1PodSpec } from '@kubernetes/client-node'

/** Labels of everything that this driver makes. */
export const labels = {
  /** Marks pods of sandboxes, for network policies and for the removal of leftovers. */
  sandbox: 'dev.gantry.sandbox',
  /** The process that made it, as a hash, because a label holds 63 characters. */
  owner: 'dev.gantry.owner',
} as const

/** What every pod of a runtime has. */
export interface PodSettings {
  readonly namespace: string
  readonly image: string
  readonly runtimeClass?: string
  /** A pod is ended by Kubernetes after this time, whatever became of its owner. */
  readonly lifetimeMs: number
  /** What `ownerReferences` name, so that the cluster removes sandboxes of a worker's pod with it. */
  readonly ownerPod?: { readonly name: string; readonly uid: string }
}

/** Memory of a pod beyond that of its programs: the init, the bridge, and what the kernel counts for them. */
const extraBytes = 16 * 2 ** 20
export const containerName = 'sandbox'

/**
 * The one policy of all pods. Nothing here comes from the arguments of a call but numbers: restricted in the sense of the
 * pod security standards, no account, no network name, no folder of the node.
 */
export function podSpecOf(spec: ContainerSpec, settings: PodSettings): V1PodSpec {
  const { uid, diskBytes, processors } = spec
  const container: V1Container = {
    name: containerName,
    image: settings.image,
    imagePullPolicy: 'IfNotPresent',
    command: [...spec.command],
    workingDir: '/',
    resources: resourcesOf(spec, processors),
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      privileged: false,
      procMount: 'Default',
      readOnlyRootFilesystem: true,
      runAsNonRoot: true,
      runAsUser: uid,
      runAsGroup: uid,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    terminationMessagePolicy: 'File',
    volumeMounts: [
      { name: 'work', mountPath: '/work' },
      { name: 'shm', mountPath: '/dev/shm' },
      // In place of what tells a program about its node, the control groups among it.
      { name: 'nothing', mountPath: '/sys', readOnly: true },
    ],
  }
  return {
    containers: [container],
    restartPolicy: 'Never',
    activeDeadlineSeconds: Math.ceil(settings.lifetimeMs / 1_000),
    terminationGracePeriodSeconds: 0,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    hostNetwork: false,
    hostPID: false,
    hostIPC: false,
    shareProcessNamespace: false,
    // A sandbox resolves no names; without this it would have the addresses of the cluster's name servers.
    dnsPolicy: 'None',
    dnsConfig: { nameservers: ['127.0.0.1'] },
    hostname: 'sandbox',
    ...(settings.runtimeClass === undefined ? {} : { runtimeClassName: settings.runtimeClass }),
    securityContext: {
      runAsNonRoot: true,
      runAsUser: uid,
      runAsGroup: uid,
      fsGroup: uid,
      seccompProfile: { type: 'RuntimeDefault' },
    },
    volumes: [
      { name: 'work', emptyDir: { medium: 'Memory', sizeLimit: String(Math.floor(diskBytes)) } },
      { name: 'shm', emptyDir: { medium: 'Memory', sizeLimit: String(sharedMemoryBytes(spec)) } },
      { name: 'nothing', emptyDir: { medium: 'Memory', sizeLimit: '65536' } },
    ],
  }
}

function resourcesOf(
  { memoryBytes, diskBytes }: ContainerSpec,
  processors: number,
): NonNullable<V1Container['resources']> {
  const memory = String(Math.floor(memoryBytes + diskBytes + extraBytes))
  const limits = { memory, cpu: `${Math.ceil(processors * 1_000)}m` }
  // What waits uses next to no processor; memory is kept free, because it cannot be taken back.
  return { limits, requests: { memory, cpu: '10m' } }
}

export function podOf(spec: ContainerSpec, settings: PodSettings, owner: string): V1Pod {
  const { ownerPod } = settings
  const references =
    ownerPod === undefined
      ? {}
      : { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: ownerPod.name, uid: ownerPod.uid }] }
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: podName(spec.id), labels: { [labels.sandbox]: 'true', [labels.owner]: owner }, ...references },
    spec: podSpecOf(spec, settings),
  }
}

/** Names of pods have neither capitals nor underscores, which ids have. */
export function podName(id: string): string {
  return `gantry-${Buffer.from(id, 'base64url').toString('hex')}`
}
