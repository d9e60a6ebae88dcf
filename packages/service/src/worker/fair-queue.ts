import type { Task } from './slot-scheduler.ts'

/** Calls that wait for a slot, by tenant; who is next depends on how many slots each tenant has. */
export interface FairQueue {
  readonly length: number
  /** Of how many tenants calls wait or have a slot. */
  readonly tenants: number
  add(task: Task): void
  /** Takes the next one out, when `kept` only of tenants that have no slot; undefined when there is none. */
  next(kept: boolean): Task | undefined
  /** False when it does not wait. */
  remove(task: Task): boolean
  takeAll(): readonly Task[]
  /** Told of every call that gets a slot and gives it back, also of those that did not wait here. */
  began(task: Task): void
  ended(task: Task): void
  /** Whether a tenant has a slot. */
  runs(tenant: string): boolean
  /** How many of each tenant wait or have a slot. */
  open(): Map<string, number>
}

interface Seat {
  waiting: Task[]
  running: number
  /** When it got a slot last, counted in slots. */
  servedAt: number
}

/** A tenant is forgotten when nothing of it waits or runs. */
export function createFairQueue(weightOf: (tenant: string) => number): FairQueue {
  const seats = new Map<string, Seat>()
  let length = 0
  let served = 0

  const seatOf = (task: Task): Seat => {
    const { tenant } = task.claim.call.identity
    const seat = seats.get(tenant) ?? { waiting: [], running: 0, servedAt: 0 }
    seats.set(tenant, seat)
    return seat
  }
  const leave = (task: Task, { waiting, running }: Seat): void => {
    if (waiting.length === 0 && running === 0) seats.delete(task.claim.call.identity.tenant)
  }
  const hungriest = (kept: boolean): Seat | undefined => {
    let best: Seat | undefined
    let least = Number.POSITIVE_INFINITY
    for (const [tenant, seat] of seats) {
      if (seat.waiting.length === 0 || (kept && seat.running > 0)) continue
      const load = seats.size === 1 ? 0 : (seat.running + 1) / weightOf(tenant)
      const isEarlier = load === least && seat.servedAt < (best?.servedAt ?? 0)
      if (load < least || isEarlier) [best, least] = [seat, load]
    }
    return best
  }
  return {
    get length() {
      return length
    },
    get tenants() {
      return seats.size
    },
    add(task) {
      seatOf(task).waiting.push(task)
      length += 1
    },
    next(kept) {
      const seat = hungriest(kept)
      const task = seat?.waiting.shift()
      if (seat === undefined || task === undefined) return undefined
      length -= 1
      served += 1
      seat.servedAt = served
      leave(task, seat)
      return task
    },
    remove(task) {
      const seat = seatOf(task)
      const at = seat.waiting.indexOf(task)
      if (at >= 0) seat.waiting.splice(at, 1)
      if (at >= 0) length -= 1
      leave(task, seat)
      return at >= 0
    },
    takeAll() {
      const all = [...seats.values()].flatMap(({ waiting }) => waiting)
      for (const [tenant, seat] of seats) {
        seat.waiting = []
        if (seat.running === 0) seats.delete(tenant)
      }
      length = 0
      return all
    },
    began(task) {
      seatOf(task).running += 1
    },
    ended(task) {
      const seat = seatOf(task)
      seat.running -= 1
      leave(task, seat)
    },
    runs: (tenant) => (seats.get(tenant)?.running ?? 0) > 0,
    open: () => new Map([...seats].map(([tenant, { waiting, running }]) => [tenant, waiting.length + running])),
  }
}
