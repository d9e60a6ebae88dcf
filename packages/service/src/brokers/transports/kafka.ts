import { createBatch } from '../../storage/batch.ts'
import { createWakeSignal } from '../../storage/wake-signal.ts'
import { type KafkaConnection, loadLibrary, unavailable } from './kafka/client.ts'
import { isOpen, lowestOpen, type Partition, sizeOf, type Taken } from './kafka/partition.ts'
import { keepSession } from './kafka/session.ts'
import type { Delivery, Transport } from './transport.ts'

export type { KafkaConnection } from './kafka/client.ts'
export { kafkaPublisher } from './kafka/publisher.ts'

export interface KafkaTransportOptions extends KafkaConnection {
  readonly group: string
  readonly topics: readonly string[]
  /** How long the group waits for a sign of life before it gives our partitions to others; 15 seconds when absent. */
  readonly sessionTimeoutMs?: number
}

/** How long nothing may be heard before whoever waits is told. */
const patienceMs = 30_000

/**
 * Topics of Kafka as a queue, shared with the other members of the group. Resolves before the cluster was reached.
 * - A message is held until it is settled; what Kafka remembers of a partition is the lowest message that is not. So
 *   what is released comes again here, and when we are gone, everything from the lowest on comes to somebody else.
 * - `settle` says many at a time, and resolves when Kafka has remembered all that it can: what stands behind a message
 *   that is not settled yet is remembered with that one. What was taken away from us is not for us to settle. After an
 *   error it may be said again.
 * - A session joins, reads and sends signs of life until it fails; then another one begins. What the old one held is
 *   lost with it and comes again.
 */
export async function kafkaTransport(options: KafkaTransportOptions): Promise<Transport> {
  const library = await loadLibrary()
  const ahead = createReadAhead()
  const wakeSignal = createWakeSignal()
  const held = new WeakMap<Delivery, Taken>()
  const timers = new Set<NodeJS.Timeout>()
  let closed = false
  let fault: unknown
  let heardAt = performance.now()

  const heard = (): void => {
    heardAt = performance.now()
    fault = undefined
  }
  const failed = (error: unknown): void => {
    fault = error ?? silence()
    wakeSignal.ring()
  }
  const put = (taken: readonly Taken[]): void => {
    ahead.put(taken)
    if (taken.length > 0) wakeSignal.ring()
  }
  const sessions = keepSession(
    library,
    { sessionTimeoutMs: 15_000, ...options },
    {
      room: () => ahead.room,
      took: put,
      assigned: ahead.dropLost,
      ...{ answered: heard, alive: heard, troubled: failed, failed },
    },
  )

  const commits = createBatch<Partition, void>(async (partitions) => {
    const due = [...new Set(partitions)].filter((one) => !one.lost && lowestOpen(one) > one.committed)
    const marks = due.map((partition) => ({ partition, offset: lowestOpen(partition) }))
    if (marks.length > 0) await sessions.current?.member.commit(marks)
    for (const { partition, offset } of marks) partition.committed = offset
    return partitions.map(() => undefined)
  })
  const handOver = (max: number): Delivery[] => {
    const taken = ahead.take(max)
    if (taken.length > 0) sessions.current?.reader.look()
    return taken.map((one) => {
      const delivery = deliveryOf(one)
      held.set(delivery, one)
      return delivery
    })
  }
  const heldOf = (deliveries: readonly Delivery[]): Taken[] =>
    deliveries.flatMap((delivery) => {
      const taken = held.get(delivery)
      return taken === undefined || taken.partition.lost ? [] : [taken]
    })
  return {
    kind: 'kafka',
    async receive(max, signal) {
      while (!signal.aborted && !closed) {
        const deliveries = handOver(max)
        if (deliveries.length > 0) return deliveries
        if (fault !== undefined) throw unavailable(fault)
        if (performance.now() - heardAt > patienceMs) throw unavailable(silence())
        await wakeSignal.wait(patienceMs, signal)
      }
      return []
    },
    async settle(deliveries) {
      const settled = heldOf(deliveries)
      for (const { partition, offset } of settled) partition.open.delete(offset)
      const partitions = [...new Set(settled.map(({ partition }) => partition))]
      try {
        await Promise.all(partitions.map((partition) => commits.add(partition)))
      } catch (error) {
        if (partitions.some(({ lost }) => !lost)) throw unavailable(error)
      }
    },
    async release(deliveries, delayMs) {
      const released = heldOf(deliveries).filter(isOpen)
      const timer = setTimeout(
        () => {
          timers.delete(timer)
          put(released.filter(isOpen))
        },
        Math.max(0, delayMs),
      )
      timers.add(timer)
    },
    wake: wakeSignal.ring,
    async lag() {
      const { current } = sessions
      if (current === undefined) throw unavailable(fault)
      return current.reader.lag(lowestOpen).catch((error: unknown) => {
        throw unavailable(error)
      })
    },
    async close() {
      closed = true
      for (const timer of timers) clearTimeout(timer)
      wakeSignal.ring()
      await sessions.close()
    },
  }
}

/** Counts it as handed over. */
function deliveryOf(taken: Taken): Delivery {
  const { message } = taken
  taken.deliveries += 1
  return {
    id: `${message.source}/${message.position}`,
    body: { kind: 'message', message },
    deliveries: taken.deliveries,
  }
}

function silence(): Error {
  return new Error('Nothing was heard of Kafka.')
}

/** Messages that were read and wait for somebody to ask for them, in the order in which they came. */
export interface ReadAhead {
  /** False when there is enough for now. */
  readonly room: boolean
  put(taken: readonly Taken[]): void
  take(max: number): Taken[]
  /** Removes what was taken away from us. */
  dropLost(): void
}

/** The answer of a broker that passes a limit is taken whole: one fetch more, at most 4 MB. */
const most = 1_000
const mostBytes = 12 * 1024 * 1024

export function createReadAhead(): ReadAhead {
  let ready: Taken[] = []
  let bytes = 0
  return {
    get room() {
      return ready.length < most && bytes < mostBytes
    },
    put(taken) {
      for (const one of taken) {
        ready.push(one)
        bytes += sizeOf(one)
      }
    },
    take(max) {
      const taken = ready.splice(0, max)
      for (const one of taken) bytes -= sizeOf(one)
      return taken
    },
    dropLost() {
      ready = ready.filter(isOpen)
      bytes = ready.reduce((sum, one) => sum + sizeOf(one), 0)
    },
  }
}
