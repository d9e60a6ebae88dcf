import { setTimeout as pause } from 'node:timers/promises'
import { isObject } from '@gantry/contract/internal/json'
import type { Resources } from '../cluster/cluster.ts'
import { labels, type PodSettings } from '../pods/pod-spec.ts'
import { kinds, type OwnedBy } from './claim-spec.ts'

/**
 * The lease by which other processes know that an owner lives. Templates, pools and claims are its dependents, so that the
 * garbage collector of the cluster removes all of them with it.
 *
 * States: held, lost, closed.
 * - held → held: renewed every 20 s
 * - held → lost: the object is gone, because another process took the owner for dead
 * - held, lost → closed: `close`, which removes it
 */
export interface OwnerLease extends OwnedBy {
  /** Resolves when the lease is lost, and with it everything that depends on it. */
  readonly lost: Promise<void>
  close(): Promise<void>
}

const renewMs = 20_000
const leaseSeconds = 60
/** Clocks of workers differ, so that an owner counts as dead only after some more time. */
const skewMs = 120_000
const removeMs = 10_000

interface LeaseOptions extends Pick<PodSettings, 'ownerPod'> {
  readonly resources: Resources
  readonly owner: string
  /** Called after each renewal, for other periodic work of the owner. */
  onRenewed(signal: AbortSignal): Promise<void>
}

export async function openOwnerLease(
  { resources, owner, ownerPod, onRenewed }: LeaseOptions,
  signal: AbortSignal,
): Promise<OwnerLease> {
  const name = `gantry-${owner}`
  const made = await resources.create(kinds.lease, leaseOf(name, owner, ownerPod), signal)
  const reference = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', name, uid: uidOf(made) }
  const lost = Promise.withResolvers<void>()
  const closing = new AbortController()
  const renewing = renewAll(
    resources,
    name,
    async () => {
      await removeDeadOwners(resources, closing.signal)
      await onRenewed(closing.signal)
    },
    closing.signal,
  ).then(lost.resolve, () => undefined)
  return {
    owner,
    reference,
    lost: lost.promise,
    async close() {
      closing.abort()
      await renewing
      // What cannot be removed now is removed as that of a dead owner.
      await resources.remove(kinds.lease, name, AbortSignal.timeout(removeMs)).catch(() => undefined)
    },
  }
}

/** Removes the leases of owners that have not renewed them, and with them what these owners have left. */
export async function removeDeadOwners(resources: Resources, signal: AbortSignal): Promise<void> {
  for (const lease of await resources.list(kinds.lease, labels.owner, signal)) {
    const { name, renewedMs } = leaseFields(lease)
    if (name !== undefined && renewedMs !== undefined && renewedMs + leaseSeconds * 1_000 + skewMs < Date.now()) {
      await resources.remove(kinds.lease, name, signal)
    }
  }
}

/** Resolves when the lease is gone; rejects when the signal aborts. */
async function renewAll(
  resources: Resources,
  name: string,
  onRenewed: () => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    await pause(renewMs, undefined, { signal, ref: false })
    const renewal = [{ op: 'replace', path: '/spec/renewTime', value: microTime() }]
    try {
      if ((await resources.patch(kinds.lease, name, renewal, signal)) === undefined) return
      await onRenewed()
    } catch {
      // The next renewal is in time; an API that stays away ends the connections to the pods too.
      signal.throwIfAborted()
    }
  }
}

function leaseOf(name: string, owner: string, ownerPod: PodSettings['ownerPod']): object {
  const references =
    ownerPod === undefined
      ? {}
      : { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: ownerPod.name, uid: ownerPod.uid }] }
  return {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { name, labels: { [labels.owner]: owner }, ...references },
    spec: { holderIdentity: owner, leaseDurationSeconds: leaseSeconds, renewTime: microTime() },
  }
}

/** The form of `MicroTime`. */
function microTime(): string {
  return new Date().toISOString().replace('Z', '000Z')
}

function leaseFields(value: unknown): { readonly name?: string; readonly renewedMs?: number } {
  if (!isObject(value) || !isObject(value.metadata) || !isObject(value.spec)) return {}
  const { name } = value.metadata
  const renewedMs = Date.parse(String(value.spec.renewTime))
  return typeof name === 'string' && Number.isFinite(renewedMs) ? { name, renewedMs } : {}
}

/** The uid that the API gave an object. */
export function uidOf(value: unknown): string {
  const uid = isObject(value) && isObject(value.metadata) ? value.metadata.uid : undefined
  if (typeof uid !== 'string') throw new TypeError('The Kubernetes API returned an object without a uid.')
  return uid
}
