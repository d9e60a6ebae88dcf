import type { Claim } from '../storage/calls/call-store.ts'
import type { Unstored } from './execute/event-writer.ts'
import { createFairQueue } from './fair-queue.ts'

/** Why a call that runs is to end before its time. */
export type Stop = 'cancelled' | 'lost' | 'stopping'

/** One call in hand. */
export interface Task {
  readonly claim: Claim
  /** The claim came with the submission, so the call begins now for the first time. */
  readonly fresh: boolean
  readonly controller: AbortController
  /** When it came into hand, of `performance.now`. */
  readonly takenAt: number
  stopped: Stop | undefined
  /** What the attempt reported and the store has not taken; set when it has run. */
  unstored?: Unstored
}

/**
 * The calls that a worker has in hand: those that run, and a few that wait so that the next one is there at once.
 * Tenants take turns: a slot that is free goes to the one that has the fewest for its weight, and among equals to the
 * one that got its last slot longest ago. The last few slots can be kept for tenants that have none, so that a new one need not
 * wait until a long call of another ends. Suspects, which were handed out before, run one at a time, because a worker may
 * have died of one of them.
 */
export interface SlotScheduler {
  /** Calls in hand: those that wait for a slot, those that have one, and those whose outcome is being recorded. */
  readonly size: number
  /** Calls that have a slot. */
  readonly running: number
  readonly waiting: number
  /** Whether a call of a tenant would get a slot at once, if none waited before it. */
  hasSlot(tenant: string): boolean
  /** How many calls have had their slot for longer than so many milliseconds. */
  olderThan(ms: number): number
  /** How many tenants have calls that wait for a slot or have one. */
  readonly tenants: number
  /** How many calls of each tenant wait for a slot or have one. */
  open(): ReadonlyMap<string, number>
  has(callId: string): boolean
  add(claims: readonly Claim[], fresh: boolean): void
  /** Ends a call that runs here, or forgets one that waits; false when it is not in hand. */
  stop(callId: string, why: Stop): boolean
  /** Takes away all that wait. */
  takeWaiting(): readonly Claim[]
  /** Starts what waits after a pause. */
  resume(): void
  /** Resolves when nothing is in hand. */
  empty(): Promise<void>
  tasks(): readonly Task[]
}

export interface SlotSchedulerOptions {
  readonly slots: number
  /** So many of them are not for a tenant that has one already; none when absent. */
  readonly kept?: () => number
  /** While it is true no call gets a slot; never when absent. */
  readonly paused?: () => boolean
  /** Twice the weight is twice the slots while others wait too; all are equal when absent. */
  readonly weightOf?: (tenant: string) => number
  /** Whether a call must run without another suspect beside it. */
  readonly suspect: (claim: Claim, fresh: boolean) => boolean
  /** Does the work; never rejects. It may say that it needs its slot no longer, though it is not done. */
  readonly work: (task: Task, freeSlot: () => void) => Promise<void>
  /** Told after each call that left; `counts` is false for one that came again meanwhile. */
  readonly left: (task: Task, counts: boolean) => void
}

export function createSlotScheduler(options: SlotSchedulerOptions): SlotScheduler {
  const { slots, kept = () => 0, paused = () => false, weightOf = () => 1, suspect, work, left } = options
  /** Everything in hand, and of each call the task that counts: a call that comes again has made the older one void. */
  const inHand = new Set<Task>()
  const current = new Map<string, Task>()
  const waiting = createFairQueue(weightOf)
  let suspects: Task[] = []
  let suspectRuns = false
  let running = 0
  /** When each call that has a slot got it, the oldest first. */
  const begun = new Map<Task, number>()
  let emptied: (() => void)[] = []

  const leave = (task: Task): void => {
    inHand.delete(task)
    const counts = current.get(task.claim.callId) === task
    if (counts) current.delete(task.claim.callId)
    left(task, counts)
    if (inHand.size > 0) return
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
  const pump = (): void => {
    while (running < slots && !paused()) {
      const alone = !suspectRuns && suspects.length > 0
      const next = alone ? suspects.shift() : waiting.next(slots - running <= kept())
      if (next === undefined) return
      void run(next, alone)
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
  return {
    get size() {
      return inHand.size
    },
    get running() {
      return running
    },
    get waiting() {
      return waiting.length + suspects.length
    },
    hasSlot: (tenant) => running < (waiting.runs(tenant) ? slots - kept() : slots),
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
    open() {
      const open = waiting.open()
      for (const { claim } of suspects) addTo(open, claim.call.identity.tenant)
      return open
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
        inHand.add(task)
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
    empty: () => (inHand.size === 0 ? Promise.resolve() : new Promise((resolve) => emptied.push(resolve))),
    tasks: () => [...inHand],
  }
}

function addTo(counts: Map<string, number>, tenant: string): void {
  counts.set(tenant, (counts.get(tenant) ?? 0) + 1)
}
