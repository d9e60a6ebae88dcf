import { readFileSync } from 'node:fs'
import { setTimeout as pause } from 'node:timers/promises'
import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { type Attack, type PodKind, testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox'
import { createKubernetesRuntime, type KubernetesOptions } from '@gantry/sandbox-kubernetes'
import { standardImage } from './cluster.fixture.ts'
import { clusterApi } from './cluster-api.fixture.ts'
import { ownNamespace } from './own-namespace.fixture.ts'

const { kubeconfig, cluster: node } = await ownNamespace()
const cluster = { kubeconfig, image: standardImage }
const noNetwork = 'A pod gets no network: such a sandbox is refused.'
const noSockets = 'Programs in pods can make no network socket; see “a program in a pod can make no network socket”.'
const ofTheRuntime =
  'A pod cannot say which files of /proc and /dev are masked beyond what the container runtime of its node masks.'

/** What there is not in pods, and what no specification of a pod can take away. */
const explained: { readonly [number: number]: string } = {
  12: 'The worker has no directory for sandboxes: all of them are in the cluster.',
  18: `${ofTheRuntime} Boot options of the node can be read.`,
  46: `${ofTheRuntime} The terminals are those of the pod alone.`,
  49: noSockets,
  51: noNetwork,
  52: noNetwork,
  53: noSockets,
  54: noSockets,
  62: noNetwork,
  63: noNetwork,
  64: noNetwork,
}

/** These attacks leave files and folders that are hard to remove. */
const leavesFiles: ReadonlySet<number> = new Set([8, 9])

/** The attack, and then nothing of a pod that is gone may be mounted on the node, which is this machine. */
function withoutMounts(attack: Attack): Attack {
  return {
    ...attack,
    async attempt(ground) {
      const end = await attack.attempt(ground)
      if (end !== 'blocked') return end
      const left = await mountsOfGonePods()
      for (const uid of left) ground.note(`volumes of the pod ${uid} are still mounted`)
      return left.length === 0 ? end : 'succeeded'
    },
  }
}

const removalMs = 30_000

/** Pods that are no longer in the cluster and have a volume that is mounted, once the kubelet had time to remove it. */
async function mountsOfGonePods(): Promise<readonly string[]> {
  const api = clusterApi(kubeconfig)
  const until = performance.now() + removalMs
  for (;;) {
    // Another file may have a cluster of its own on this machine.
    const lines = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
    const mounts = lines.filter((line) => line.includes(` ${node}/`)).join('\n')
    const mounted = new Set([...mounts.matchAll(/\/pods\/([0-9a-f-]{36})\//g)].map(([, uid = '']) => uid))
    const { items } = (await api('GET', '/api/v1/pods')) as { items: readonly { metadata: { uid: string } }[] }
    const known = new Set(items.map(({ metadata }) => metadata.uid))
    const gone = [...mounted].filter((uid) => !known.has(uid))
    if (gone.length === 0 || performance.now() > until) return gone
    await pause(200)
  }
}

/** Every attack on pods of one mode. */
export function testPodAttacks(kind: PodKind, mode: NonNullable<KubernetesOptions['mode']>): void {
  const attacks = allAttacks.map((attack): Attack => {
    const reason = explained[attack.number]
    if (leavesFiles.has(attack.number)) return withoutMounts(attack)
    return reason === undefined ? attack : { ...attack, explained: { ...attack.explained, [kind]: reason } }
  })
  testAttacks(kind, attacks, async () => ({
    runtime: createKubernetesRuntime({ ...cluster, mode }),
    unguarded: createUnsafeHostRuntime(),
  }))
}
