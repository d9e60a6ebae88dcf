import type { Claim } from '../storage/calls/call-store.ts'
import type { Unstored } from './execute/event-writer.ts'

/** Why a running call is aborted. */
export type Stop = 'cancelled' | 'lost' | 'stopping'

/** One claimed call of this worker. */
export interface Task {
  readonly claim: Claim
  /** The claim came with the submission, so this is the first attempt. */
  readonly fresh: boolean
  readonly controller: AbortController
  /** When the worker got the claim, by `performance.now`. */
  readonly takenAt: number
  stopped: Stop | undefined
  /** Reports of the attempt that are not stored; set when it has run. */
  unstored?: Unstored
  /** Where its tool threw. */
  thrownAt?: string
}

/**
 * Gives the slots of a worker to its claimed calls: those that run, and a few that wait so that the next one starts at
 * once. A free slot goes to the tenant that has the fewest for its weight, and among equals to the one that got its
 * last slot longest ago. A tenant has at most its share, and the last few slots are reserved for tenants that have
 * none, so that neither waits until a long call of another tenant ends. Suspects, which were delivered before, run one
 * at a time, because one of them may have crashed a worker.
 * | ## States of a task
 * - `waiting`: it has no slot yet; suspects wait in a list of their own.
 * - `running`: it has a slot.
 * - `finishing`: it has freed its slot, and its outcome is being recorded.
 * - `left`: the scheduler no longer has it.
 * | ## Transitions
 * - `waiting` on `add`. An older task of the same call is lost.
 * - `waiting` → `running`: a slot is free that the tenant may have, the call is the next one for it, and nothing is
 *   paused.
 * - `running` → `finishing`: `work` calls `freeSlot`.
 * - `running`, `finishing` → `left`: `work` resolves.
 * - `waiting` → `left`: the lease is lost, or `takeWaiting` removes the call.
 * | `stop` aborts the signal of a task and keeps its state, except for a waiting task whose lease is lost.
 */
export interface SlotScheduler {
  /** The number of calls that wait for a slot, have one, or whose outcome is being recorded. */
  readonly size: number
  /** The number of calls that have a slot. */
  readonly running: number
  readonly waiting: number
  /** Whether a call of the tenant would get a slot at once, if no other waited before it. */
  hasSlot(tenant: string): boolean
  /** The number of calls that have had their slot for longer than `ms`. */
  olderThan(ms: number): number
  /** The number of tenants with calls that wait for a slot or have one. */
  readonly tenants: number
  /** The number of calls of each tenant that wait for a slot or have one. */
  open(): ReadonlyMap<string, number>
  /** The largest of these numbers. */
  readonly mostOpen: number
  /** The tenants that could use no further call now: all their calls wait, or they have their share. */
  filled(): ReadonlyMap<string, number>
  has(callId: string): boolean
  add(claims: readonly Claim[], fresh: boolean): void
  /** Aborts a running call, or drops a waiting one; false when the worker does not have it. */
  stop(callId: string, why: Stop): boolean
  /** Removes and returns all waiting calls. */
  takeWaiting(): readonly Claim[]
  /** Starts waiting calls after a pause. */
  resume(): void
  /** Resolves when the worker has no call. */
  empty(): Promise<void>
  tasks(): readonly Task[]
}

export interface SlotSchedulerOptions {
  readonly slots: number
  /** The most slots of one tenant; all when absent. */
  readonly share?: number
  /** The slots reserved for tenants that have none; zero when absent. */
  readonly kept?: number
  /** While it returns true no call gets a slot; never when absent. */
  readonly paused?: () => boolean
  /** Twice the weight gives twice the slots while others wait too; all are equal when absent. */
  readonly weightOf?: (tenant: string) => number
  /** Whether a call must run without another suspect at the same time. */
  readonly suspect: (claim: Claim, fresh: boolean) => boolean
  /** Handles the call; never rejects. It may free its slot before it resolves. */
  readonly work: (task: Task, freeSlot: () => void) => Promise<void>
  /** Called after each call that left; `counts` is false for one that was claimed again meanwhile. */
  readonly left: (task: Task, counts: boolean) => void
}

/**
 * Divides the slots of a worker: a tenant gets at most three quarters of them, and at least one; of the rest an eighth
 * of all is reserved for tenants that have none, as far as two are left for a second tenant. A single slot cannot be
 * divided; of two to four a second tenant gets one.
 */
export function divideSlots(slots: number): { readonly share: number; readonly kept: number } {
  const share = Math.max(1, Math.floor(slots * 0.75))
  return { share, kept: Math.max(0, Math.min(Math.floor(slots / 8), slots - share - 2)) }
}

export function createSlotScheduler(options: SlotSchedulerOptions): SlotScheduler {
  const { slots, share = slots, kept = 0, paused = () => false, weightOf = () => 1, suspect, work, left } = options
  const all = new Set<Task>()
  /** The valid task of each call: a call that was claimed again voids the older one. */
  const current = new Map<string, Task>()
  const waiting = createFairQueue(weightOf)
  let suspects: Task[] = []
  let suspectRuns = false
  let running = 0
  /** When each call got its slot, the oldest first. */
  const begun = new Map<Task, number>()
  let emptied: (() => void)[] = []

  /** Whether a tenant with `has` slots may have one more. */
  const mayHaveMore = (has: number): boolean => running < slots && has < share && (has === 0 || slots - running > kept)

  const leave = (task: Task): void => {
    all.delete(task)
    const counts = current.get(task.claim.callId) === task
    if (counts) current.delete(task.claim.callId)
    left(task, counts)
    if (all.size > 0) return
    for (const resolve of emptied) resolve()
    emptied = []
  }
  const run = async (task: Task, alone: boolean): Promise<void> => {
    let slot = 1
    running += slot
    waiting.began(task)
    begun.set(task, performance.now())
    if (alone) suspectRuns = true
    const freeSlot = (): void => {
      running -= slot
      if (slot > 0) waiting.ended(task)
      begun.delete(task)
      slot = 0
      pump()
    }
    try {
      await work(task, freeSlot)
    } finally {
      if (alone) suspectRuns = false
      leave(task)
      freeSlot()
    }
  }
  const nextSuspect = (): Task | undefined => {
    if (suspectRuns || suspects.length === 0) return undefined
    const at = suspects.findIndex((task) => mayHaveMore(waiting.running(tenantOf(task))))
    return at < 0 ? undefined : suspects.splice(at, 1)[0]
  }
  const pump = (): void => {
    while (running < slots && !paused()) {
      const alone = nextSuspect()
      const next = alone ?? waiting.next(mayHaveMore)
      if (next === undefined) return
      void run(next, alone !== undefined)
    }
  }
  const forget = (task: Task): boolean => {
    const before = suspects.length
    suspects = suspects.filter((other) => other !== task)
    return suspects.length < before || waiting.remove(task)
  }
  const halt = (task: Task, why: Stop): void => {
    task.stopped ??= why
    task.controller.abort()
  }
  const lose = (task: Task): void => {
    task.stopped = 'lost'
    task.controller.abort()
    if (forget(task)) leave(task)
  }
  const open = (): Map<string, number> => {
    const counts = waiting.open()
    for (const task of suspects) counts.set(tenantOf(task), (counts.get(tenantOf(task)) ?? 0) + 1)
    return counts
  }
  return {
    get size() {
      return all.size
    },
    get running() {
      return running
    },
    get waiting() {
      return waiting.length + suspects.length
    },
    hasSlot: (tenant) => mayHaveMore(waiting.running(tenant)),
    olderThan(ms) {
      const since = performance.now() - ms
      let count = 0
      for (const at of begun.values()) {
        if (at > since) break
        count += 1
      }
      return count
    },
    get tenants() {
      return waiting.tenants
    },
    open,
    get mostOpen() {
      return Math.max(waiting.mostOpen, suspects.length > 0 ? Math.max(...open().values()) : 0)
    },
    filled() {
      const counts = open()
      for (const [tenant, count] of counts) {
        const has = waiting.running(tenant)
        if (count === has && mayHaveMore(has)) counts.delete(tenant)
      }
      return counts
    },
    has: (callId) => current.has(callId),
    add(claims, fresh) {
      for (const claim of claims) {
        const task: Task = {
          claim,
          fresh,
          controller: new AbortController(),
          takenAt: performance.now(),
          stopped: undefined,
        }
        const before = current.get(claim.callId)
        all.add(task)
        current.set(claim.callId, task)
        if (before !== undefined) lose(before)
        if (suspect(claim, fresh)) suspects.push(task)
        else waiting.add(task)
      }
      pump()
    },
    stop(callId, why) {
      const task = current.get(callId)
      if (task === undefined) return false
      if (why === 'lost') lose(task)
      else halt(task, why)
      return true
    },
    takeWaiting() {
      const taken = [...waiting.takeAll(), ...suspects]
      suspects = []
      for (const task of taken) leave(task)
      return taken.map(({ claim }) => claim)
    },
    resume: pump,
    empty: () => (all.size === 0 ? Promise.resolve() : new Promise((resolve) => emptied.push(resolve))),
    tasks: () => [...all],
  }
}

/** Calls that wait for a slot, by tenant; which is next depends on the slots of each tenant. */
interface FairQueue {
  readonly length: number
  /** The number of tenants with calls that wait or have a slot. */
  readonly tenants: number
  add(task: Task): void
  /** Removes and returns the next call of a tenant that may have one more slot; undefined when there is none. */
  next(mayHaveMore: (has: number) => boolean): Task | undefined
  /** False when the task does not wait. */
  remove(task: Task): boolean
  takeAll(): readonly Task[]
  /** Counts every call that gets and frees a slot, also those that did not wait here. */
  began(task: Task): void
  ended(task: Task): void
  /** The number of slots of a tenant. */
  running(tenant: string): number
  /** The number of calls of each tenant that wait or have a slot. */
  open(): Map<string, number>
  /** The largest of these numbers. */
  readonly mostOpen: number
}

/** The calls of one tenant that wait or run; dropped when there are none. */
interface TenantCalls {
  waiting: Task[]
  running: number
  /** When it got its last slot, counted in slots. */
  servedAt: number
}

function createFairQueue(weightOf: (tenant: string) => number): FairQueue {
  const tenants = new Map<string, TenantCalls>()
  let length = 0
  let served = 0

  const callsOf = (task: Task): TenantCalls => {
    const tenant = tenantOf(task)
    const calls = tenants.get(tenant) ?? { waiting: [], running: 0, servedAt: 0 }
    tenants.set(tenant, calls)
    return calls
  }
  const leave = (task: Task, { waiting, running }: TenantCalls): void => {
    if (waiting.length === 0 && running === 0) tenants.delete(tenantOf(task))
  }
  const leastServed = (mayHaveMore: (has: number) => boolean): TenantCalls | undefined => {
    let best: TenantCalls | undefined
    let least = Number.POSITIVE_INFINITY
    for (const [tenant, calls] of tenants) {
      if (calls.waiting.length === 0 || !mayHaveMore(calls.running)) continue
      const load = tenants.size === 1 ? 0 : (calls.running + 1) / weightOf(tenant)
      const isEarlier = load === least && calls.servedAt < (best?.servedAt ?? 0)
      if (load < least || isEarlier) [best, least] = [calls, load]
    }
    return best
  }
  return {
    get length() {
      return length
    },
    get tenants() {
      return tenants.size
    },
    add(task) {
      callsOf(task).waiting.push(task)
      length += 1
    },
    next(mayHaveMore) {
      const calls = leastServed(mayHaveMore)
      const task = calls?.waiting.shift()
      if (calls === undefined || task === undefined) return undefined
      length -= 1
      served += 1
      calls.servedAt = served
      leave(task, calls)
      return task
    },
    remove(task) {
      const calls = callsOf(task)
      const at = calls.waiting.indexOf(task)
      if (at >= 0) calls.waiting.splice(at, 1)
      if (at >= 0) length -= 1
      leave(task, calls)
      return at >= 0
    },
    takeAll() {
      const all = [...tenants.values()].flatMap(({ waiting }) => waiting)
      for (const [tenant, calls] of tenants) {
        calls.waiting = []
        if (calls.running === 0) tenants.delete(tenant)
      }
      length = 0
      return all
    },
    began(task) {
      callsOf(task).running += 1
    },
    ended(task) {
      const calls = callsOf(task)
      calls.running -= 1
      leave(task, calls)
    },
    running: (tenant) => tenants.get(tenant)?.running ?? 0,
    open: () => new Map([...tenants].map(([tenant, { waiting, running }]) => [tenant, waiting.length + running])),
    get mostOpen() {
      let most = 0
      for (const { waiting, running } of tenants.values()) most = Math.max(most, waiting.length + running)
      return most
    },
  }
}

function tenantOf({ claim }: Task): string {
  return claim.call.identity.tenant
}
