import { createHash } from 'node:crypto'
import type { ContainerSpec } from '@gantry/sandbox-containers/internal/engines/engine'
import type { V1PodSpec } from '@kubernetes/client-node'
import type { ResourceKind } from '../cluster/cluster.ts'
import { labels, type PodSettings, podName, podSpecOf } from '../pods/pod-spec.ts'

const extensions = { group: 'extensions.agents.x-k8s.io', version: 'v1beta1' } as const

/** The resources of agent-sandbox that a claim involves, and the lease by which their owner is known to live. */
export const kinds = {
  template: { ...extensions, plural: 'sandboxtemplates' },
  pool: { ...extensions, plural: 'sandboxwarmpools' },
  claim: { ...extensions, plural: 'sandboxclaims' },
  sandbox: { group: 'agents.x-k8s.io', version: 'v1beta1', plural: 'sandboxes' },
  lease: { group: 'coordination.k8s.io', version: 'v1', plural: 'leases' },
} as const satisfies { readonly [name: string]: ResourceKind }

/** What an object is removed with. */
export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
}

/** What is the same for everything of one owner. */
export interface OwnedBy {
  /** The value of the owner's label. */
  readonly owner: string
  readonly reference: OwnerReference
}

/** A claim whose pod has ended is removed after this, also when its owner is gone. */
const finishedSeconds = 5

/**
 * The policy of the pods of a class: that of every pod, without a deadline of its own, because a pod may wait for long
 * before it is claimed; the claim has one.
 */
export function classPodSpec(spec: ContainerSpec, settings: PodSettings): V1PodSpec {
  const { activeDeadlineSeconds: _, ...rest } = podSpecOf(spec, settings)
  return rest
}

/** The name of a class: sandboxes whose pods differ in nothing but their uid. */
export function classOf(spec: ContainerSpec, settings: PodSettings): string {
  const text = JSON.stringify(classPodSpec({ ...spec, uid: 0 }, settings))
  return createHash('sha256').update(text).digest('hex').slice(0, 10)
}

/** A template that denies every connection where the cluster enforces a NetworkPolicy; the filter does everywhere. */
export function templateOf(name: string, spec: V1PodSpec, { owner, reference }: OwnedBy): object {
  const own = { [labels.sandbox]: 'true', [labels.owner]: owner }
  return {
    apiVersion: `${kinds.template.group}/${kinds.template.version}`,
    kind: 'SandboxTemplate',
    metadata: { name, labels: own, ownerReferences: [reference] },
    spec: {
      podTemplate: { metadata: { labels: own }, spec },
      service: false,
      networkPolicyManagement: 'Managed',
      networkPolicy: {},
      envVarsInjectionPolicy: 'Disallowed',
      volumeClaimTemplatesPolicy: 'Disallowed',
    },
  }
}

/** A pool of a template of the same name. A pod of a template that was changed is deleted rather than handed out. */
export function poolOf(name: string, replicas: number, { owner, reference }: OwnedBy): object {
  return {
    apiVersion: `${kinds.pool.group}/${kinds.pool.version}`,
    kind: 'SandboxWarmPool',
    metadata: { name, labels: { [labels.owner]: owner }, ownerReferences: [reference] },
    spec: { replicas, sandboxTemplateRef: { name }, updateStrategy: { type: 'Recreate' } },
  }
}

export function claimOf(
  name: string,
  pool: string,
  { lifetimeMs }: Pick<PodSettings, 'lifetimeMs'>,
  { owner, reference }: OwnedBy,
): object {
  return {
    apiVersion: `${kinds.claim.group}/${kinds.claim.version}`,
    kind: 'SandboxClaim',
    metadata: { name, labels: { [labels.owner]: owner }, ownerReferences: [reference] },
    spec: {
      warmPoolRef: { name: pool },
      lifecycle: {
        shutdownTime: new Date(Date.now() + lifetimeMs).toISOString(),
        ttlSecondsAfterFinished: finishedSeconds,
        shutdownPolicy: 'Delete',
      },
    },
  }
}

/** The name of a claim, which a sandbox that no pool had has too. */
export function claimName(id: string): string {
  return podName(id)
}
