import { examine } from '../admit/examine.ts'
import { createConsumer } from '../consume/consumer.ts'
import type { Claim } from '../stores/call-store.ts'
import type { Delivery } from '../transports/transport.ts'
import { createDesk, type Desk } from './desk.ts'
import { handle } from './handle.ts'
import { createPace } from './pace.ts'
import type { WorkerOptions, WorkerPorts } from './ports.ts'

/**
 * Works on calls: consume → admit → execute → record → reply.
 *
 * It is *running* from `start` on: it takes as many calls as it has room for. `stop` makes it *draining*: it takes no
 * more, hands back what has not begun and lets the rest end. When the grace is over, what still runs is stopped: a call
 * that may be repeated is handed back, one that may not ends as unknown. Then it is *stopped*.
 */
export interface Worker {
  start(): void
  /** Takes calls that were claimed with their submission. */
  take(claims: readonly Claim[]): void
  /** Whether a new call could begin here at once, with none waiting before it. */
  readonly free: boolean
  readonly running: number
  /** How many calls that are in no queue yet it could take now; none while some wait in the queue for it. */
  readonly room: number
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
  const pace = createPace(options.slots, options.ahead)
  let consumed: Promise<void> = Promise.resolve()
  let downSince: number | undefined
  const hearers = new Set<() => void>()
  const freed = (): void => {
    consumer.freed()
    for (const hear of hearers) hear()
  }

  const leases = ports.leases({
    lost: (callId) => {
      if (desk.stop(callId, 'lost')) bus.emit('lease:lost', { callId })
    },
    cancelled: (callId) => void desk.stop(callId, 'cancelled'),
  })
  const desk: Desk = createDesk({
    slots: options.slots,
    suspect: (claim, fresh) => {
      const verdict = examine(claim, { ...options, fresh })
      return verdict.kind === 'run' && verdict.alone
    },
    work(task, freeSlot) {
      const start = performance.now()
      return handle(task, ports, options, () => {
        pace.ran(performance.now() - start)
        freeSlot()
        freed()
      })
    },
    left: ({ claim }, counts) => {
      if (counts) leases.drop([claim.callId])
      freed()
    },
  })
  const put = (claims: readonly Claim[], fresh: boolean): void => {
    leases.hold(claims)
    for (const { callId, call, fence, deliveries } of claims) {
      bus.emit('call:claimed', { callId, tool: call.tool, fence, deliveries })
    }
    desk.add(claims, fresh)
  }
  const consumer = createConsumer({
    transport,
    room: () => roomOf(desk, options.slots, pace.ahead),
    take: (deliveries) => put(deliveries.flatMap(claimed), false),
    failed(error) {
      if (downSince !== undefined) return
      downSince = ports.now().getTime()
      bus.emit('store:down', { reason: error.message })
    },
    answered() {
      if (downSince !== undefined) bus.emit('store:up', { downMs: ports.now().getTime() - downSince })
      downSince = undefined
    },
    idled: freed,
    random: ports.random,
    pause: ports.pause,
  })
  return {
    start() {
      consumed = consumer.run(consuming.signal)
    },
    take: (claims) => put(claims, true),
    get free() {
      return !consuming.signal.aborted && consumer.idle && desk.waiting === 0 && desk.running < options.slots
    },
    get running() {
      return desk.running
    },
    get room() {
      const open = !consuming.signal.aborted && consumer.idle
      return open ? roomOf(desk, options.slots, pace.ahead) : 0
    },
    onRoom(hear) {
      hearers.add(hear)
      return () => void hearers.delete(hear)
    },
    has: desk.has,
    cancel: (callId) => void desk.stop(callId, 'cancelled'),
    async stop(graceMs) {
      consuming.abort()
      await consumed
      await handBack(ports, desk.takeWaiting())
      const grace = new AbortController()
      await Promise.race([desk.empty().then(() => grace.abort()), ports.pause(graceMs, grace.signal)])
      for (const { claim } of desk.tasks()) desk.stop(claim.callId, 'stopping')
      await desk.empty()
      await leases.close()
    },
  }
}

/** Outcomes that may wait to be recorded; when there are more, the database is behind, and nothing new is taken. */
const mostUnrecorded = 1_000

/** Room for more than the slots only in large steps, so that claiming stays cheap when calls are short. */
function roomOf({ size, running, waiting }: Desk, slots: number, ahead: number): number {
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
  for (const { callId, call } of claims) bus.emit('call:released', { callId, tool: call.tool, reason: 'stopping' })
  await store.release(claims.map(({ callId, fence }) => ({ callId, fence }))).catch(() => undefined)
}
