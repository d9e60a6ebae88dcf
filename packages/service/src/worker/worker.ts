import { createConsumer } from '../brokers/consumer.ts'
import type { Delivery } from '../brokers/transports/transport.ts'
import { subjectOf } from '../observe/bus.ts'
import { shareOf } from '../storage/calls/call-facts.ts'
import type { Claim, Share } from '../storage/calls/call-store.ts'
import { examine } from './examine.ts'
import { handleCall } from './handle-call.ts'
import type { WorkerOptions, WorkerPorts } from './ports.ts'
import { createSlotScheduler, type SlotScheduler } from './slot-scheduler.ts'
import { createUnrecordedOutcomes, type UnrecordedOutcome } from './unrecorded-outcomes.ts'

/**
 * Works on calls: consume → admit → execute → record → reply.
 *
 * It is *running* from `start` on: it takes as many calls as it has room for. `stop` makes it *draining*: it takes no
 * more, hands back what has not begun and lets the rest end. When the grace is over, what still runs is stopped: a call
 * that may be repeated is handed back, one that may not ends as unknown. Then it is *stopped*. While an outcome cannot be
 * recorded it is *holding*: it claims and starts nothing, and tries again until the end of the grace.
 */
export interface Worker {
  start(): void
  /** Claims soon, because there may be calls to claim. */
  wake(): void
  /** Takes calls that were claimed with their submission; one that does not get into the store is lost. */
  take(claims: readonly Claim[]): void
  /**
   * Whether a new call of a tenant may come here without the detour through the queue: when it could begin at once, with
   * none waiting before it, or when others have more in hand here and this tenant has less than its share.
   */
  accepts(tenant: string): boolean
  /** How many calls of each tenant wait for a slot here or have one. */
  readonly busy: { readonly [tenant: string]: number }
  readonly running: number
  /** How many calls it could claim now. */
  readonly claimable: number
  /** How many calls that are in no queue yet it could take now; none while some wait in the queue for it. */
  readonly room: number
  /** Outcomes that neither the database nor the spool has taken; while there are any, no call is claimed or started. */
  readonly unrecorded: readonly UnrecordedOutcome[]
  /** Hears whenever there may be more room than before, until the function it answers is called. */
  onRoom(hear: () => void): () => void
  /** Whether a call is in hand here: it waits, runs or is being recorded. */
  has(callId: string): boolean
  /** Ends a call that runs here. */
  cancel(callId: string): void
  stop(graceMs: number): Promise<void>
}

export function createWorker(ports: WorkerPorts, options: WorkerOptions): Worker {
  const { transport, bus } = ports
  const consuming = new AbortController()
  /** Two are enough to know that there are several; while there is one, all slots are its own. */
  const seen = new Set<string>()
  const see = (tenant: string): void => void (seen.size < 2 && seen.add(tenant))
  const kept = (): number => (seen.size < 2 ? 0 : keptSlots(options.slots))
  const pace = createClaimPace(options.slots, options.ahead)
  let consumed: Promise<unknown> = Promise.resolve()
  let sharedUntil = Number.NEGATIVE_INFINITY
  const hearers = new Set<() => void>()
  const freed = (): void => {
    consumer.freed()
    for (const hear of hearers) hear()
  }

  const held = createUnrecordedOutcomes({ ...ports, emptied: () => scheduler.resume() })
  const leases = ports.leases({
    lost: (callId) => {
      if (scheduler.stop(callId, 'lost')) bus.emit('lease:lost', { callId })
    },
    cancelled: (callId) => void scheduler.stop(callId, 'cancelled'),
  })
  const shareFor = (tenant: string): Share => shareOf(ports.shares?.(), tenant)
  const scheduler: SlotScheduler = createSlotScheduler({
    ...{ slots: options.slots, kept, paused: () => held.size > 0 },
    weightOf: (tenant) => shareFor(tenant).weight ?? 1,
    suspect: (claim, fresh) => {
      const verdict = examine(claim, { ...options, fresh })
      return verdict.kind === 'run' && verdict.alone
    },
    work(task, freeSlot) {
      const start = performance.now()
      const executed = (): void => {
        pace.ran(performance.now() - start)
        freeSlot()
        freed()
      }
      return handleCall(task, ports, options, executed, held)
    },
    left: ({ claim }, counts) => {
      if (counts) leases.drop([claim.callId])
      // What a limit kept in the queue may have room now, and nobody else would look before long.
      const { concurrency, principals } = shareFor(claim.call.identity.tenant)
      if (concurrency !== undefined || principals !== undefined) transport.wake()
      freed()
    },
  })
  const put = (claims: readonly Claim[], fresh: boolean): void => {
    leases.hold(claims)
    for (const { call, fence, deliveries } of claims) {
      see(call.identity.tenant)
      bus.emit('call:claimed', { ...subjectOf(call), fence, deliveries })
    }
    scheduler.add(claims, fresh)
    for (const { callId, entering } of claims) entering?.catch(() => scheduler.stop(callId, 'lost'))
    if (scheduler.tenants > 1) sharedUntil = performance.now() + sharedMs
  }
  const room = (): number => {
    if (held.size > 0) return 0
    return roomOf(scheduler, options.slots, pace.ahead(performance.now() < sharedUntil, scheduler.olderThan))
  }
  /** While there is no room, what waits of tenants of which nothing is in hand is claimed all the same. */
  const welcome = async (signal: AbortSignal): Promise<void> => {
    const { newcomers } = ports
    while (newcomers !== undefined && !signal.aborted) {
      await ports.pause(newcomersMs, signal)
      const full = room() === 0 && held.size === 0 && scheduler.size < mostUnrecorded
      if (full && !signal.aborted) put(await newcomers(Math.max(1, kept())).catch(() => []), false)
    }
  }
  const consumer = createConsumer({
    transport,
    room,
    take: (deliveries) => put(deliveries.flatMap(claimed), false),
    failed: ({ message }) => bus.emit('dependency:failed', { ...claiming, reason: message }),
    answered: () => bus.emit('dependency:worked', claiming),
    idled: freed,
    random: ports.random,
    pause: ports.pause,
  })
  return {
    start() {
      const { signal } = consuming
      consumed = Promise.all([consumer.run(signal), welcome(signal)])
    },
    wake: transport.wake,
    take: (claims) => put(claims, true),
    accepts(tenant) {
      if (consuming.signal.aborted || held.size > 0) return false
      see(tenant)
      if (consumer.idle && scheduler.waiting === 0 && scheduler.hasSlot(tenant)) return true
      return hasLess(scheduler.open(), tenant, options.slots, (one) => shareFor(one).weight ?? 1)
    },
    get busy() {
      return Object.fromEntries(scheduler.open())
    },
    get running() {
      return scheduler.running
    },
    get claimable() {
      return room()
    },
    get room() {
      return !consuming.signal.aborted && consumer.idle ? room() : 0
    },
    get unrecorded() {
      return held.list()
    },
    onRoom(hear) {
      hearers.add(hear)
      return () => void hearers.delete(hear)
    },
    has: scheduler.has,
    cancel: (callId) => void scheduler.stop(callId, 'cancelled'),
    async stop(graceMs) {
      consuming.abort()
      await consumed
      await handBack(ports, scheduler.takeWaiting())
      const grace = new AbortController()
      await Promise.race([scheduler.empty().then(() => grace.abort()), ports.pause(graceMs, grace.signal)])
      for (const { claim } of scheduler.tasks()) scheduler.stop(claim.callId, 'stopping')
      held.giveUp()
      await scheduler.empty()
      await leases.close()
    },
  }
}

/** What the worker asks of the database between calls. */
const claiming = { dependency: 'database', operation: 'claim' } as const

/** For so long after calls of several tenants were in hand, fewer are claimed ahead. */
const sharedMs = 1_000

/** So often a worker without room looks for tenants of which it has nothing in hand. */
const newcomersMs = 50

/** Once there are several tenants, one slot in eight, and one at least of several, is for those that have none. */
function keptSlots(slots: number): number {
  return slots === 1 ? 0 : Math.ceil(slots / 8)
}

/** Whether others have calls in hand, and this tenant less than its share of the slots. */
function hasLess(
  open: ReadonlyMap<string, number>,
  tenant: string,
  slots: number,
  weightOf: (tenant: string) => number,
): boolean {
  const others = [...open.keys()].filter((one) => one !== tenant)
  if (others.length === 0) return false
  const all = others.reduce((sum, one) => sum + weightOf(one), weightOf(tenant))
  return (open.get(tenant) ?? 0) < (slots * weightOf(tenant)) / all
}

/** Outcomes that may wait to be recorded; when there are more, the database is behind, and nothing new is taken. */
const mostUnrecorded = 1_000

/** Room for more than the slots only in large steps, so that claiming stays cheap when calls are short. */
function roomOf({ size, running, waiting }: SlotScheduler, slots: number, ahead: number): number {
  const open = running + waiting
  if (size - open >= mostUnrecorded) return 0
  const room = slots + ahead - open
  return open < slots || room >= ahead / 2 ? Math.max(0, room) : 0
}

function claimed({ body }: Delivery): readonly Claim[] {
  return body.kind === 'claimed' ? [body.claim] : []
}

/** What cannot be handed back now comes back when its lease runs out. */
async function handBack({ store, bus }: WorkerPorts, claims: readonly Claim[]): Promise<void> {
  if (claims.length === 0) return
  for (const { call } of claims) bus.emit('call:released', { ...subjectOf(call), reason: 'stopping' })
  await Promise.allSettled(claims.map(({ entering }) => entering))
  await store.release(claims.map(({ callId, fence }) => ({ callId, fence }))).catch(() => undefined)
}

/**
 * How many calls to claim ahead of the slots: as many as these get through in a tenth of a second, so that none waits
 * long here while another worker is idle; far fewer while tenants share the slots, because what is claimed ahead keeps
 * the next call of another tenant in the queue. It goes by how long calls had a slot, whatever kept the slots empty
 * between. A slot whose call already has it for much longer than that does not count: what is long now was not foreseen.
 */
interface Pace {
  /** `olderThan` says how many slots have had their call for longer than so many milliseconds. */
  ahead(shared: boolean, olderThan: (ms: number) => number): number
  /** Told how long a call had its slot. */
  ran(ms: number): void
}

const windowMs = 100
const sharedWindowMs = 10
const shortMs = 5
const muchLonger = 4
/** So many calls make up the mean: a long one counts at once, and only many short ones make it forgotten. */
const memory = 20

export function createClaimPace(slots: number, most: number): Pace {
  let meanMs = Number.POSITIVE_INFINITY
  return {
    ahead(shared, olderThan) {
      if (meanMs === Number.POSITIVE_INFINITY) return 0
      const moving = slots - olderThan(Math.max(shortMs, meanMs * muchLonger))
      return Math.max(0, Math.min(most, Math.floor((moving * (shared ? sharedWindowMs : windowMs)) / meanMs)))
    },
    ran(ms) {
      meanMs = meanMs === Number.POSITIVE_INFINITY ? ms : meanMs + (ms - meanMs) / memory
    },
  }
}
