import { createConsumer } from '../brokers/consumer.ts'
import type { Delivery } from '../brokers/transports/transport.ts'
import { subjectOf } from '../observe/bus.ts'
import { shareOf } from '../storage/calls/call-facts.ts'
import type { Claim, Share } from '../storage/calls/call-store.ts'
import { examine } from './call-decisions.ts'
import { handleCall } from './handle-call.ts'
import type { WorkerOptions, WorkerPorts } from './ports.ts'
import { createSlotScheduler, divideSlots, type SlotScheduler } from './slot-scheduler.ts'
import { createUnrecordedOutcomes, type UnrecordedOutcome } from './unrecorded-outcomes.ts'

/**
 * Executes calls: claim → admit → execute → record → reply.
 * | ## States
 * - `running`: the worker claims as many calls as it has free slots.
 * - `holding`: an outcome cannot be recorded; the worker claims and starts nothing and retries recording.
 * - `draining`: the worker claims nothing, releases calls that have not begun and lets the others finish.
 * - `stopped`: no call runs.
 * | ## Transitions
 * - `running` on `start`.
 * - `running` → `holding`: recording an outcome failed.
 * - `holding` → `running`: the outcome was recorded.
 * - `running`, `holding` → `draining`: `stop`.
 * - `draining` → `stopped`: no call is left, or the grace period ends. Calls that still run are then stopped: a
 *   repeatable call is released, any other ends as `unknown`. Outcomes are retried until the grace period ends.
 */
export interface Worker {
  start(): void
  /** Claims soon, because there may be calls to claim. */
  wake(): void
  /** Takes calls that were claimed with their submission; one that is never stored is lost. */
  take(claims: readonly Claim[]): void
  /**
   * Whether a new call of a tenant may come here without the detour through the queue: when it could begin at once,
   * with none waiting before it, or when other tenants have more calls here and this tenant has less than its share.
   */
  accepts(tenant: string): boolean
  /** The number of calls of each tenant that wait for a slot here or have one. */
  readonly busy: { readonly [tenant: string]: number }
  readonly running: number
  /** The number of calls that the worker could claim now. */
  readonly claimable: number
  /** The number of calls, not queued yet, that the worker could take now; zero while calls wait in the queue for it. */
  readonly freeSlots: number
  /**
   * Outcomes that neither the database nor the spool has accepted; while there are any, no call is claimed or started.
   */
  readonly unrecorded: readonly UnrecordedOutcome[]
  /** Calls the listener when slots may have become free, until the returned function is called. */
  onFreeSlots(listener: () => void): () => void
  /** Whether this worker has the call: it waits, runs or is being recorded. */
  has(callId: string): boolean
  /** Aborts a call that runs here. */
  cancel(callId: string): void
  stop(graceMs: number): Promise<void>
}

export function createWorker(ports: WorkerPorts, options: WorkerOptions): Worker {
  const { transport, bus } = ports
  const consuming = new AbortController()
  const { slots } = options
  const { share, kept } = divideSlots(slots)
  const pace = createClaimPace(share, options.ahead)
  let consumed: Promise<unknown> = Promise.resolve()
  let sharedUntil = Number.NEGATIVE_INFINITY
  const listeners = new Set<() => void>()
  const freed = (): void => {
    consumer.freed?.()
    for (const listener of listeners) listener()
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
    slots,
    share,
    kept,
    paused: () => held.size > 0,
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
      // A call that a limit kept in the queue may run now, and the next poll is up to a second away.
      const { concurrency, principals } = shareFor(claim.call.identity.tenant)
      if (concurrency !== undefined || principals !== undefined) transport.wake()
      freed()
    },
  })
  const put = (claims: readonly Claim[], fresh: boolean): void => {
    leases.hold(claims)
    for (const { call, fence, deliveries } of claims) {
      bus.emit('call:claimed', { ...subjectOf(call), fence, deliveries })
    }
    scheduler.add(claims, fresh)
    for (const { callId, entering } of claims) entering?.catch(() => scheduler.stop(callId, 'lost'))
    if (scheduler.tenants > 1) sharedUntil = performance.now() + sharedMs
  }
  const ahead = (): number => pace.ahead(performance.now() < sharedUntil, scheduler.olderThan)
  const freeSlots = (): number =>
    held.size > 0 ? 0 : freeSlotsIn(scheduler, slots, scheduler.running + scheduler.waiting, ahead())
  /** A claim may return calls of any tenant, so its size is what the tenant with the most calls may still get. */
  const claimable = (): number => {
    const most = freeSlots()
    return most === 0 ? 0 : Math.min(most, freeSlotsIn(scheduler, share, scheduler.mostOpen, ahead()))
  }
  /** While nothing is claimable, claims calls of tenants that could run one more here. */
  const welcome = async (signal: AbortSignal): Promise<void> => {
    const { newcomers } = ports
    let found = false
    while (newcomers !== undefined && !signal.aborted) {
      if (!found) await ports.pause(newcomersMs, signal)
      found = false
      const full = claimable() === 0 && held.size === 0 && scheduler.size < mostUnrecorded
      if (!full || signal.aborted) continue
      const claims = await newcomers(Math.max(1, slots - scheduler.running), scheduler.filled()).catch(unclaimed)
      found = claims.length > 0
      put(claims, false)
    }
  }
  const unclaimed = ({ message }: Error): readonly Claim[] => {
    bus.emit('dependency:failed', { ...claiming, reason: message })
    return []
  }
  const consumer = createConsumer({
    transport,
    freeSlots: claimable,
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
      if (consumer.idle && scheduler.waiting === 0 && scheduler.hasSlot(tenant)) return true
      return hasLess(scheduler.open(), tenant, slots, (one) => shareFor(one).weight ?? 1)
    },
    get busy() {
      return Object.fromEntries(scheduler.open())
    },
    get running() {
      return scheduler.running
    },
    get claimable() {
      return claimable()
    },
    get freeSlots() {
      return !consuming.signal.aborted && consumer.idle ? freeSlots() : 0
    },
    get unrecorded() {
      return held.list()
    },
    onFreeSlots(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
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

const claiming = { dependency: 'database', operation: 'claim' } as const

/** For so long after several tenants had calls here, fewer calls are claimed ahead. */
const sharedMs = 1_000

/** The interval at which a worker that claims nothing else claims for tenants that could run one more call here. */
const newcomersMs = 50

/** Whether other tenants have calls here, and this tenant has less than its share of the slots. */
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

/** The most outcomes that may wait to be recorded; beyond it the database is behind, and nothing new is claimed. */
const mostUnrecorded = 1_000

/** Claims beyond the slots only in large steps, so that claiming stays cheap when calls are short. */
function freeSlotsIn({ size, running, waiting }: SlotScheduler, slots: number, open: number, ahead: number): number {
  if (size - running - waiting >= mostUnrecorded) return 0
  const freeSlots = slots + ahead - open
  return open < slots || freeSlots >= ahead / 2 ? Math.max(0, freeSlots) : 0
}

function claimed({ body }: Delivery): readonly Claim[] {
  return body.kind === 'claimed' ? [body.claim] : []
}

/** A call that cannot be released now is reclaimed when its lease expires. */
async function handBack({ store, bus }: WorkerPorts, claims: readonly Claim[]): Promise<void> {
  if (claims.length === 0) return
  for (const { call } of claims) bus.emit('call:released', { ...subjectOf(call), reason: 'stopping' })
  await Promise.allSettled(claims.map(({ entering }) => entering))
  await store.release(claims.map(({ callId, fence }) => ({ callId, fence }))).catch(() => undefined)
}

/**
 * The number of calls to claim ahead of the slots: as many as the slots run in a tenth of a second, so that none waits
 * long here while another worker is idle; far fewer while tenants share the slots, because calls claimed ahead keep the
 * next call of another tenant in the queue. It is computed from how long calls had a slot, not from idle time between
 * them. A slot whose call has run for much longer than that does not count.
 */
interface Pace {
  /** `olderThan` returns how many slots have had their call for longer than `ms`. */
  ahead(shared: boolean, olderThan: (ms: number) => number): number
  /** Counts a call that had its slot for `ms`. */
  ran(ms: number): void
}

const windowMs = 100
const sharedWindowMs = 10
const shortMs = 5
const muchLonger = 4
/** The weight of the running mean: a long call counts at once, and only many short ones outweigh it. */
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
