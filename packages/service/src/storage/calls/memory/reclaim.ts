import type { Reclaimed, ReclaimOptions } from '../call-store.ts'
import { unrunEnding } from '../unrun.ts'
import { endUnrun } from './finish.ts'
import { auditOf, fillSlots, type Live, type Memory, mayHaveRun, noteAttempt } from './state.ts'

export function reclaim(memory: Memory, { max, leases = 'expired', notAfter }: ReclaimOptions): Reclaimed {
  const time = memory.now()
  const live = [...memory.live.values()]
  const needed = live.flatMap(({ needs }) => needs ?? [])
  const overdue = live.filter((one) => one.leaseUntil === undefined && !mayHaveRun(one) && isOver(one.deadline, time))
  const until = { all: Number.POSITIVE_INFINITY, none: Number.NEGATIVE_INFINITY, expired: time }[
    isOver(notAfter, time) ? 'none' : leases
  ]
  const leased = live.filter(({ leaseUntil }) => leaseUntil !== undefined && leaseUntil < until)
  const lost = leased.slice(0, max).map((one) => takeAway(memory, one))
  const due = live.filter((one) => waits(one) && one.runAt <= time).slice(0, max)
  for (const one of due) {
    one.lane = one.call.slot === undefined ? 'ready' : 'held'
    one.kept = false
  }
  const unmet = live.filter((one) => isUnmet(one) && one.runAt <= time).slice(0, max)
  for (const one of unmet) one.kept = false
  fillSlots(
    memory,
    due.map(({ call }) => call.slot?.key),
  )
  const ends = overdue
    .slice(0, max)
    .map(({ call, fence, deliveries, needs }) =>
      unrunEnding({ ...call, fence, deliveries, needs }, 'TIMEOUT', new Date(time)),
    )
  const next = nextMs(memory, due.length === max)
  const expired = endUnrun(memory, ends)
  const wanted = needed.length === 0 ? {} : { wanted: [...new Set(needed)] }
  return {
    lost,
    promoted: due.length + unmet.length,
    expired,
    ...wanted,
    ...next,
    ...(notAfter === undefined ? {} : { at: time }),
  }
}

/** Leaves the fence, so that a late holder may still finish. */
function takeAway(memory: Memory, live: Live): string {
  noteAttempt(memory, live, 'lost')
  memory.records.audit.push(auditOf(live, 'lost'))
  live.leaseUntil = undefined
  live.lost += 1
  if (live.begun) live.deaths += 1
  live.begun = false
  return live.call.callId
}

function waits({ lane }: Live): boolean {
  return lane === 'later' || lane === 'asked'
}

function isUnmet({ kept, lane, leaseUntil }: Live): boolean {
  return kept && lane === 'ready' && leaseUntil === undefined
}

function isOver(deadline: number | undefined, time: number): boolean {
  return deadline !== undefined && deadline < time
}

function nextMs({ live, now }: Memory, more: boolean): Pick<Reclaimed, 'nextMs'> {
  if (more) return { nextMs: 0 }
  const times = [...live.values()].flatMap((one) => (waits(one) ? [one.runAt] : []))
  return times.length === 0 ? {} : { nextMs: Math.max(0, Math.min(...times) - now()) }
}
