import { dirname } from 'node:path'
import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { follow } from '@gantry/core/internal/resilience/abort'
import { claimUids } from '@gantry/sandbox/internal/process/uids'
import {
  createRemover,
  type RemoveOnce,
  type Remover,
} from '@gantry/sandbox-containers/internal/engines/container-removal'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import type { Container, ContainerEngine, ContainerSpec } from '@gantry/sandbox-containers/internal/engines/engine'
import { isAbsent } from '../cluster/absent-object.ts'
import type { Cluster } from '../cluster/cluster.ts'
import { createObjectWatch, type ObjectWatch } from '../cluster/object-watch.ts'
import { requirePolicy } from '../pods/pod-check.ts'
import { podContainer } from '../pods/pod-container.ts'
import { openPods, ownerLabelOf, type PodEngineOptions, podRemoval } from '../pods/pod-engine.ts'
import { containerName, labels } from '../pods/pod-spec.ts'
import { type PodWatch, runningPod, watchPods } from '../pods/pod-watch.ts'
import { claimName, claimOf, kinds } from './claim-spec.ts'
import { createLanes, type Lane, type Lanes } from './lanes.ts'
import { type OwnerLease, openOwnerLease, removeDeadOwners, uidOf } from './owner-lease.ts'

export interface ClaimEngineOptions extends PodEngineOptions {
  /** The folder of this run on this machine. */
  readonly folder: string
  /** How many pods of each class wait in warm pools. */
  readonly warmPods: number
}

/** How long the controller may take to bind a claim; a pod that no pool has takes a second or two. */
const bindMs = 30_000
const overQuota = /exceeded quota/
const controllerRemedy =
  'Start the controller of agent-sandbox with --extensions, and look at its log (docs/runtimes/kubernetes.md).'

/**
 * Pods of agent-sandbox as containers of an engine: a sandbox is a claim on a warm pool. The pods have the policy of all
 * pods, and the one that is bound to a claim is compared with it before anything runs in it.
 */
export async function openClaims(options: ClaimEngineOptions, signal: AbortSignal): Promise<ContainerEngine> {
  const { cluster, folder, settings, warmPods } = options
  const { resources } = cluster
  await requireInstalled(cluster, signal)
  const owner = ownerLabelOf(options.owner)
  const pods = await openPods(options, signal)
  // A block of its own, because pools keep their uids when a sandbox of them has ended; its claim is beside those of all runs.
  const uids = await claimUids({ folder: dirname(folder), owner: options.owner })
  const closing = new AbortController()
  let lanes: Lanes | undefined
  try {
    await removeDeadOwners(resources, signal)
    const { ownerPod } = settings
    const lease = await openOwnerLease(
      {
        resources,
        owner,
        ...(ownerPod === undefined ? {} : { ownerPod }),
        onRenewed: async () => lanes?.expire(),
      },
      signal,
    )
    const own = createLanes({ resources, settings, by: lease, uids, warmPods })
    lanes = own
    const selector = `${labels.owner}=${owner}`
    const claims = createObjectWatch<object>()
    resources.watch(kinds.claim, selector, claims.report, closing.signal)
    const watched = watchPods(cluster, selector, closing.signal)
    const bound = new Map<string, string>()
    const remover = createRemover(claimRemoval(cluster, bound))
    const parts: Parts = { cluster, lanes: own, lease, claims, watched, bound, remover, options }
    return {
      ...pods,
      version: `agent-sandbox ${kinds.claim.version} on ${pods.version}`,
      outdated: Promise.race([pods.outdated, lease.lost]),
      start: (spec, given) => startClaim(parts, spec, given),
      async close() {
        await remover.close()
        await own.close()
        closing.abort()
        await lease.close()
        await uids.close()
        await pods.close()
      },
    }
  } catch (error) {
    closing.abort()
    await uids.close()
    await pods.close()
    throw error
  }
}

async function requireInstalled({ resources, address }: Cluster, signal: AbortSignal): Promise<void> {
  try {
    await resources.list(kinds.claim, labels.owner, signal)
  } catch (error) {
    if (!isAbsent(error)) throw error
    const { group, version } = kinds.claim
    const reason = `The cluster at ${address} does not serve ${group}/${version}: agent-sandbox with its extensions is not installed, or is another version.`
    throw unavailable(reason, 'Install agent-sandbox v0.5.6 or newer, or use the mode `pods`.', error)
  }
}

interface Parts {
  readonly cluster: Cluster
  readonly lanes: Lanes
  readonly lease: OwnerLease
  readonly claims: ObjectWatch<object>
  readonly watched: PodWatch
  /** The sandbox of each claim, which has the name of its pod. */
  readonly bound: Map<string, string>
  readonly remover: Remover
  readonly options: ClaimEngineOptions
}

/** Claims a pod of a lane, compares it with the policy, and connects to its init. */
async function startClaim(parts: Parts, spec: ContainerSpec, given: AbortSignal): Promise<Container> {
  const { lanes, remover } = parts
  const lane = await lanes.take(spec, given)
  const name = claimName(spec.id)
  try {
    return await connectClaim(parts, lane, name, given)
  } catch (error) {
    remover.expect(name)
    forget(parts, name)
    lanes.drop(lane)
    given.throwIfAborted()
    if (ToolError.is(error)) throw error
    const said = error instanceof Error ? error.message : String(error)
    throw new ToolError('SANDBOX_INIT_FAILED', `The claimed pod did not start: ${said}`, { cause: error })
  }
}

async function connectClaim(parts: Parts, lane: Lane, name: string, given: AbortSignal): Promise<Container> {
  const { cluster, lanes, lease, watched, remover, options } = parts
  const claim = await cluster.resources.create(kinds.claim, claimOf(name, lane.name, options.settings, lease), given)
  const pod = await boundPod(parts, name, { claimUid: uidOf(claim), lane }, given)
  const stream = await cluster.exec(pod, containerName, ['/gantry/init', 'bridge'], given)
  return podContainer(stream, async () => {
    const gone = await remover.remove(name)
    watched.forget(pod)
    forget(parts, name)
    if (!gone) {
      lanes.drop(lane)
      return [`claim ${name}`]
    }
    lanes.give(lane)
    return []
  })
}

function forget({ claims }: Parts, name: string): void {
  claims.forget(name)
}

/** Waits until the claim has a pod that runs; rejects with what the controller, the scheduler or the kubelet says. */
async function boundPod(
  { cluster, claims, watched, bound }: Parts,
  name: string,
  wanted: WantedPod,
  given: AbortSignal,
): Promise<string> {
  const late = AbortSignal.timeout(bindMs)
  const { signal, leave } = follow(given, late)
  try {
    const claim = await claims.until(name, (one) => one === undefined || sandboxOf(one) !== undefined, signal)
    const pod = claim === undefined ? undefined : sandboxOf(claim)
    if (pod === undefined) throw new ToolError('SANDBOX_INIT_FAILED', 'The claim was deleted before it was bound.')
    bound.set(name, pod)
    await createdPod({ claims, watched }, { name, pod }, signal)
    await requireOwnPod(cluster, pod, wanted, signal)
    await runningPod(watched, pod, () => undefined, signal)
    return pod
  } catch (error) {
    given.throwIfAborted()
    if (!late.aborted) throw error
    const last = claims.last(name)
    const said = last === undefined ? undefined : conditionOf(last)
    if (said === undefined)
      throw unavailable('The controller of agent-sandbox does not answer a claim.', controllerRemedy)
    throw new ToolError('SANDBOX_INIT_FAILED', `The claim was not bound in ${bindMs / 1_000} s: ${said}`)
  } finally {
    leave()
  }
}

/** Waits until the controller has made the pod; rejects when a quota refuses it, which no time repairs. */
async function createdPod(
  { claims, watched }: Pick<Parts, 'claims' | 'watched'>,
  { name, pod }: { readonly name: string; readonly pod: string },
  given: AbortSignal,
): Promise<void> {
  const done = new AbortController()
  const { signal, leave } = follow(given, done.signal)
  const refused = async (): Promise<never> => {
    const claim = await claims.until(name, (one) => one !== undefined && overQuota.test(conditionOf(one) ?? ''), signal)
    const said = claim === undefined ? '' : conditionOf(claim)
    const remedy = 'Raise the ResourceQuota of the namespace, or lower the limits of the call.'
    throw unavailable(`The quota of the namespace is used up: ${said}`, remedy)
  }
  try {
    await Promise.race([watched.until(pod, () => true, signal), refused()])
  } finally {
    done.abort()
    leave()
  }
}

interface WantedPod {
  readonly claimUid: string
  readonly lane: Lane
}

/**
 * A pod that another party made, changed or claimed is not used. The claim names a sandbox, and neither the claim's status
 * nor the template is believed: the pod itself must have the policy, and its sandbox must be the claim's.
 */
async function requireOwnPod(
  { readPod, resources }: Cluster,
  name: string,
  { claimUid, lane }: WantedPod,
  signal: AbortSignal,
): Promise<void> {
  const [pod, sandbox] = await Promise.all([readPod(name, signal), resources.read(kinds.sandbox, name, signal)])
  if (pod === undefined || sandbox === undefined) {
    throw new ToolError('SANDBOX_INIT_FAILED', `The pod ${name} of the claim is gone.`)
  }
  if (controllerOf(sandbox) !== claimUid || controllerOf(pod) !== uidOf(sandbox)) {
    throw new ToolError('SANDBOX_INIT_FAILED', `The pod ${name} does not belong to the claim that names it.`)
  }
  requirePolicy(`The pod ${name} of the claim`, lane.podSpec, pod.spec)
}

/** One try to remove a claim with its sandbox and its pod, without waiting for the garbage collector. */
function claimRemoval(cluster: Cluster, bound: Map<string, string>): RemoveOnce {
  const removePod = podRemoval(cluster)
  return async (name, signal) => {
    // A sandbox that no pool had has the name of its claim.
    const sandbox = bound.get(name) ?? name
    try {
      const wasThere = await cluster.resources.remove(kinds.claim, name, signal)
      // While the sandbox is there its controller would make the pod again.
      await cluster.resources.remove(kinds.sandbox, sandbox, signal)
      const pod = await removePod(sandbox, signal)
      if (pod === 'refused' || pod === 'unanswered') return pod
      bound.delete(name)
      return wasThere ? 'gone' : pod
    } catch (error) {
      return ToolError.is(error) && isObject(error.details) && 'status' in error.details ? 'refused' : 'unanswered'
    }
  }
}

function statusOf(value: object): { readonly [name: string]: unknown } {
  return isObject(value) && isObject(value.status) ? value.status : {}
}

function sandboxOf(claim: object): string | undefined {
  const { sandbox } = statusOf(claim)
  const name = isObject(sandbox) ? sandbox.name : undefined
  return typeof name === 'string' && name !== '' ? name : undefined
}

/** What the controller says of a claim that is not ready. */
function conditionOf(claim: object): string | undefined {
  const { conditions } = statusOf(claim)
  if (!Array.isArray(conditions)) return undefined
  const ready: unknown = conditions.find((one) => isObject(one) && one.type === 'Ready')
  if (!isObject(ready)) return undefined
  return `${String(ready.reason)}: ${String(ready.message)}`.slice(0, 500)
}

/** The uid of the controller that an object belongs to. */
function controllerOf(value: object): string | undefined {
  const metadata = 'metadata' in value ? value.metadata : undefined
  const references = isObject(metadata) ? metadata.ownerReferences : undefined
  if (!Array.isArray(references)) return undefined
  const controller: unknown = references.find((one) => isObject(one) && one.controller === true)
  return isObject(controller) && typeof controller.uid === 'string' ? controller.uid : undefined
}
