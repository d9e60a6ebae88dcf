import type { Runtime } from '@gantry/core/internal/runtimes/runtime'
import type { Languages } from '@gantry/sandbox/internal/languages/languages'
import { containerRuntime } from '@gantry/sandbox-containers/internal/drivers/container-runtime'
import { defaultImage } from '@gantry/sandbox-containers/internal/images/image-name'
import { openClaims } from '../claims/claim-engine.ts'
import type { Cluster } from '../cluster/cluster.ts'
import type { ClusterOptions } from '../cluster/cluster-options.ts'
import { loadCluster } from '../cluster/load-cluster.ts'
import { type NetworkFinding, networkRefusal, networkText, probeNetwork } from '../pods/network-probe.ts'
import { openPods } from '../pods/pod-engine.ts'

/** Which cluster runs sandboxes, and what their pods are made of. */
export interface KubernetesOptions extends ClusterOptions {
  /** `pods`, a pod for each sandbox, when absent; `agent-sandbox`, claims on warm pools of its controller. */
  readonly mode?: 'pods' | 'agent-sandbox'
  /** How many pods wait in warm pools for each kind of sandbox, in the mode `agent-sandbox`; two when absent. */
  readonly warmPods?: number
  /** By the name that the nodes know; the one that `gantry runtime build` makes when absent. */
  readonly image?: string
  /** The RuntimeClass of the pods, such as one of gVisor; the cluster's default when absent. */
  readonly runtimeClass?: string
  /** How many processors a sandbox may use at a time; one when absent. */
  readonly processors?: number
  /** Kubernetes ends a pod after this time, whatever became of its owner; two hours when absent. */
  readonly lifetimeMs?: number
  readonly languages?: Languages
}

const usualLifetimeMs = 7_200_000
const usualWarmPods = 2
/** Threads under the uid of a pod beyond those of programs: its pause, its init, two of the bridge, and one too many. */
const podProcesses = 5
/** A pod that waits under the same uid: its pause and its init. */
const waitingProcesses = 2

/** Programs in pods of a cluster; the API is reached with the first probe or sandbox. */
export function createKubernetesRuntime(options: KubernetesOptions = {}): Runtime {
  const { image = defaultImage, runtimeClass, processors, languages, lifetimeMs = usualLifetimeMs } = options
  const { mode = 'pods', warmPods = usualWarmPods } = options
  const settingsIn = (cluster: Cluster) => ({
    namespace: cluster.namespace,
    image,
    lifetimeMs,
    ...(runtimeClass === undefined ? {} : { runtimeClass }),
    ...ownPod(cluster.namespace),
  })
  const runtime = containerRuntime(
    {
      kind: 'kubernetes',
      isolation: 'container',
      cost: 700,
      hasOwnKernel: false,
      // No pod can say how many processes it may have; that is a setting of the node.
      uidProcesses: mode === 'pods' ? podProcesses : podProcesses + waitingProcesses,
      // The network namespace of a pod is never empty, so that the filter refuses the sockets of networks.
      initCommand: () => ['/gantry/init', 'init', '--pipes', '/gantry/filters/offline'],
      async open({ owner, folder }, signal) {
        const cluster = await loadCluster(options)
        const settings = settingsIn(cluster)
        if (mode === 'pods') return openPods({ cluster, owner, settings }, signal)
        return openClaims({ cluster, owner, folder, settings, warmPods }, signal)
      },
    },
    {
      image,
      ...(processors === undefined ? {} : { processors }),
      ...(languages === undefined ? {} : { languages }),
    },
  )
  let network: NetworkFinding | undefined
  return {
    ...runtime,
    async probe(signal) {
      const probe = await runtime.probe(signal)
      if (!probe.available) return probe
      const cluster = await loadCluster(options)
      network = await probeNetwork(cluster, settingsIn(cluster), signal)
      return { ...probe, version: `${probe.version}, ${networkText(network)}` }
    },
    refuses: (spec) => (spec.network === 'none' ? undefined : networkRefusal(network)) ?? runtime.refuses(spec),
  }
}

/**
 * The pod of this process, where its manifest says so by the downward API: sandboxes end with it. An owner in another
 * namespace counts as absent, so that the cluster would remove the sandboxes at once.
 */
function ownPod(namespace: string): { readonly ownerPod?: { readonly name: string; readonly uid: string } } {
  const { GANTRY_POD_NAME: name, GANTRY_POD_UID: uid, GANTRY_POD_NAMESPACE: own = namespace } = process.env
  return name === undefined || uid === undefined || own !== namespace ? {} : { ownerPod: { name, uid } }
}
