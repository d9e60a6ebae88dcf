import { ToolError } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import type { Uids } from '@gantry/sandbox/internal/process/uids'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import type { ContainerSpec } from '@gantry/sandbox-containers/internal/engines/engine'
import type { V1PodSpec } from '@kubernetes/client-node'
import type { ResourceKind, Resources } from '../cluster/cluster.ts'
import { requirePolicy } from '../pods/pod-check.ts'
import type { PodSettings } from '../pods/pod-spec.ts'
import { classOf, classPodSpec, kinds, type OwnedBy, poolOf, templateOf } from './claim-spec.ts'

/** A template and its warm pool, for pods of one class under one uid, of which one at a time is claimed. */
export interface Lane {
  /** The name of both. */
  readonly name: string
  readonly podSpec: V1PodSpec
}

/**
 * The lanes of an owner. Pods of a pool are all alike, so that pods of one pool would share a uid, and with it the number
 * of processes that the kernel allows that uid. So a lane has a pool of one pod, which agent-sandbox replaces when it is
 * claimed, and a class of sandboxes has several lanes.
 *
 * States of a lane: idle, claimed, removed.
 * - absent → claimed: `take`, when no lane of the class is idle; within the number of warm lanes its pool keeps a pod
 * - absent → idle: the first `take` of a class makes its other warm lanes too
 * - idle → claimed: `take`, the one that is idle for longest, because its pod has had the most time to start
 * - claimed → idle: `give`, for a warm lane
 * - claimed → removed: `give` for another one, `drop`
 * - idle → removed: `expire` of a class that was not used for ten minutes, `close`
 */
export interface Lanes {
  take(spec: ContainerSpec, signal: AbortSignal): Promise<Lane>
  /** Returns a lane whose claimed pod is gone. */
  give(lane: Lane): void
  /** Removes a lane whose pod may live on. */
  drop(lane: Lane): void
  /** Removes the lanes of classes that are not used any more. */
  expire(): void
  close(): Promise<void>
}

export interface LanesOptions {
  readonly resources: Resources
  readonly settings: PodSettings
  readonly by: OwnedBy
  readonly uids: Uids
  /** How many pods of a class wait. */
  readonly warmPods: number
}

interface OwnLane extends Lane {
  readonly uid: number
  readonly isWarm: boolean
}

interface LaneClass {
  readonly idle: OwnLane[]
  warm: number
  usedAt: number
}

/** Limits come from configuration, so that there are few; a class beyond these has no pods that wait. */
const mostClasses = 16
const unusedMs = 600_000
const removeMs = 10_000

export function createLanes({ resources, settings, by, uids, warmPods }: LanesOptions): Lanes {
  const classes = new Map<string, LaneClass>()
  const claimed = new Map<string, { readonly lane: OwnLane; readonly of: LaneClass }>()
  const work = new Set<Promise<unknown>>()
  const closing = new AbortController()
  let count = 0

  const inBackground = (promise: Promise<unknown>): void => {
    const settled = promise.catch(() => undefined).then(() => void work.delete(settled))
    work.add(settled)
  }
  const make = async (spec: ContainerSpec, isWarm: boolean, signal: AbortSignal): Promise<OwnLane> => {
    const uid = uids.next()
    count += 1
    const name = `gantry-${by.owner.slice(0, 12)}-${classOf(spec, settings)}-${count}`
    const podSpec = classPodSpec({ ...spec, uid }, settings)
    const lane = { name, uid, isWarm, podSpec }
    try {
      const made = await createNew(resources, kinds.template, templateOf(name, podSpec, by), signal)
      requirePolicy(`The SandboxTemplate ${name}`, podSpec, templateSpecOf(made))
      await createNew(resources, kinds.pool, poolOf(name, isWarm ? 1 : 0, by), signal)
      return lane
    } catch (error) {
      inBackground(remove(lane))
      throw error
    }
  }
  const remove = async ({ name, uid }: OwnLane): Promise<void> => {
    const signal = AbortSignal.timeout(removeMs)
    await resources.remove(kinds.pool, name, signal)
    await resources.remove(kinds.template, name, signal)
    uids.release(uid)
  }
  /** Makes the other lanes of a new class, while the first sandbox starts. */
  const fill = async (spec: ContainerSpec, of: LaneClass): Promise<void> => {
    while (of.warm < warmPods && !closing.signal.aborted) {
      of.warm += 1
      try {
        of.idle.push(await make(spec, true, closing.signal))
      } catch (error) {
        of.warm -= 1
        throw error
      }
    }
  }
  const classFor = (name: string): LaneClass => {
    const known = classes.get(name)
    if (known !== undefined) return known
    const made: LaneClass = { idle: [], warm: 0, usedAt: 0 }
    classes.set(name, made)
    return made
  }
  const takeNew = async (spec: ContainerSpec, of: LaneClass, signal: AbortSignal): Promise<OwnLane> => {
    const isWarm = of.warm < warmPods && classes.size <= mostClasses
    if (!isWarm) return make(spec, false, signal)
    const isFirst = of.warm === 0
    of.warm += 1
    try {
      const lane = await make(spec, true, signal)
      if (isFirst) inBackground(fill(spec, of))
      return lane
    } catch (error) {
      of.warm -= 1
      throw error
    }
  }
  const forget = ({ name }: Lane): { readonly lane: OwnLane; readonly of: LaneClass } | undefined => {
    const found = claimed.get(name)
    claimed.delete(name)
    return found
  }
  const end = (lane: OwnLane, of: LaneClass): void => {
    if (lane.isWarm) of.warm -= 1
    inBackground(remove(lane))
  }
  return {
    async take(spec, signal) {
      const of = classFor(classOf(spec, settings))
      of.usedAt = performance.now()
      const lane = of.idle.shift() ?? (await takeNew(spec, of, signal))
      claimed.set(lane.name, { lane, of })
      return lane
    },
    give(given) {
      const found = forget(given)
      if (found === undefined) return
      const { lane, of } = found
      if (lane.isWarm && !closing.signal.aborted) of.idle.push(lane)
      else end(lane, of)
    },
    drop(given) {
      const found = forget(given)
      if (found !== undefined) end(found.lane, found.of)
    },
    expire() {
      for (const [name, of] of classes) {
        if (performance.now() - of.usedAt < unusedMs) continue
        for (const lane of of.idle.splice(0)) end(lane, of)
        if (of.warm === 0) classes.delete(name)
      }
    },
    async close() {
      closing.abort()
      await Promise.all(work)
      for (const of of classes.values()) for (const lane of of.idle.splice(0)) end(lane, of)
      await Promise.all(work)
    },
  }
}

/** Creates an object, and refuses one of its name that is there: it was made by another party, with any specification. */
async function createNew(resources: Resources, kind: ResourceKind, body: object, signal: AbortSignal): Promise<object> {
  try {
    return await resources.create(kind, body, signal)
  } catch (error) {
    if (!ToolError.is(error) || !isObject(error.details) || error.details.status !== 409) throw error
    throw unavailable(
      `An object of ${kind.plural} is there already, which Gantry did not make: ${error.message.slice(0, 300)}`,
      'Remove it, and let no other account write to the namespace of sandboxes.',
      error,
    )
  }
}

function templateSpecOf(template: unknown): unknown {
  const spec = isObject(template) ? template.spec : undefined
  const pod = isObject(spec) ? spec.podTemplate : undefined
  return isObject(pod) ? pod.spec : undefined
}
