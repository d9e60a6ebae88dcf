import { setTimeout as delay } from 'node:timers/promises'
import { createBatch } from '../../storage/batch.ts'
import { createWakeSignal } from '../../storage/wake-signal.ts'
import {
  clientOptions,
  closeClient,
  createTopic,
  isUnknownTopic,
  type KafkaConnection,
  type Library,
  loadLibrary,
  quiet,
  unavailable,
  whileOpen,
} from './kafka/client.ts'
import { joinGroup, type Member, type MemberEvents, type MemberOptions } from './kafka/member.ts'
import {
  createReader,
  isOpen,
  lowestOpen,
  type Partition,
  type Reader,
  type ReaderEvents,
  sizeOf,
  type Taken,
} from './kafka/reader.ts'
import type { Delivery, Transport } from './transport.ts'

export type { KafkaConnection } from './kafka/client.ts'
export { kafkaPublisher } from './kafka/publisher.ts'

export interface KafkaTransportOptions extends KafkaConnection {
  readonly group: string
  readonly topics: readonly string[]
  /** The time without a heartbeat after which the group reassigns our partitions; 15 seconds when absent. */
  readonly sessionTimeoutMs?: number
}

/** The time without a response of the cluster after which waiting calls reject. */
const patienceMs = 30_000

/**
 * Kafka topics as a queue, shared with the other members of the group. Resolves before the cluster was reached.
 * - A message is held until it is settled; the committed offset of a partition is its lowest unsettled message. So a
 *   released message is delivered again here, and when this member has left, another one gets everything from that
 *   offset on.
 * - `settle` commits many messages at once, and resolves when all that can be committed is: a settled message above an
 *   unsettled one is committed with that one. Messages of revoked partitions are not settled here. After an error
 *   `settle` may be called again.
 * - A session joins, reads and sends heartbeats until it fails; then another one begins. The messages of the old one
 *   are lost with it and delivered again.
 */
export async function kafkaTransport(options: KafkaTransportOptions): Promise<Transport> {
  const library = await loadLibrary()
  const ahead = createReadAhead()
  const wakeSignal = createWakeSignal()
  const held = new WeakMap<Delivery, Taken>()
  const timers = new Set<NodeJS.Timeout>()
  let closed = false
  let fault: unknown
  let receivedAt = performance.now()

  const received = (): void => {
    receivedAt = performance.now()
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
      hasCapacity: () => ahead.hasCapacity,
      took: put,
      assigned: ahead.dropLost,
      answered: received,
      alive: received,
      troubled: failed,
      failed,
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
        if (performance.now() - receivedAt > patienceMs) throw unavailable(silence())
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

/** Counts the delivery. */
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
  return new Error('Kafka did not answer within 30 seconds.')
}

/** Messages that were read and wait for a `receive`, in the order of their arrival. */
export interface ReadAhead {
  /** False when enough is buffered. */
  readonly hasCapacity: boolean
  put(taken: readonly Taken[]): void
  take(max: number): Taken[]
  /** Removes messages of revoked partitions. */
  dropLost(): void
}

/** A response that exceeds the limit is accepted completely: one fetch more, at most 4 MB. */
const most = 1_000
const mostBytes = 12 * 1024 * 1024

export function createReadAhead(): ReadAhead {
  let ready: Taken[] = []
  let bytes = 0
  return {
    get hasCapacity() {
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

/** A member of the group and its reader, from joining until it fails or is closed. */
interface Session {
  readonly member: Member
  readonly reader: Reader
  /** Resolves with the reason when the session cannot go on; its opener still has to close it. */
  readonly failed: Promise<unknown>
  close(): Promise<void>
}

type SessionEvents = ReaderEvents & MemberEvents

/** Rejects when the cluster is unreachable or refuses the member. */
async function openSession(
  library: Library,
  options: MemberOptions,
  events: SessionEvents,
  signal: AbortSignal,
): Promise<Session> {
  await needTopics(library, options, signal)
  const failed = Promise.withResolvers<unknown>()
  const parts: { reader?: Reader } = {}
  const memberEvents: MemberEvents = {
    ...events,
    assigned() {
      events.assigned()
      parts.reader?.look()
    },
    failed: failed.resolve,
  }
  const member = await joinGroup(library, options, memberEvents, signal)
  const reader = createReader(library, options, member, events)
  parts.reader = reader
  reader.look()
  return {
    member,
    reader,
    failed: failed.promise,
    async close() {
      await Promise.all([reader.close(), member.close()])
    },
  }
}

/** Creates missing topics, where permitted; a group for a missing topic gets no assignment. */
async function needTopics(library: Library, options: MemberOptions, signal: AbortSignal): Promise<void> {
  const client = quiet(new library.Admin(clientOptions(options)))
  try {
    for (const topic of options.topics) {
      try {
        await whileOpen(client, signal, () => client.metadata({ topics: [topic], retries: 0 }))
      } catch (error) {
        if (!isUnknownTopic(error)) throw error
        await createTopic(library, options, topic)
      }
    }
  } finally {
    await closeClient(client)
  }
}

/** One session after another, until it is closed. */
interface Sessions {
  /** The open session, if any. */
  readonly current: Session | undefined
  close(): Promise<void>
}

const firstPauseMs = 250
const longestPauseMs = 10_000

/**
 * Opens a session; when it fails, or cannot be opened, another one after a pause, each up to twice as long as the one
 * before, so that many members that lost the same broker do not reconnect at the same moment.
 */
function keepSession(library: Library, options: MemberOptions, events: SessionEvents): Sessions {
  const stop = new AbortController()
  const { signal } = stop
  const ended = Promise.withResolvers<void>()
  let current: Session | undefined

  const run = async (): Promise<void> => {
    for (let pauseMs = firstPauseMs; !signal.aborted; pauseMs = Math.min(longestPauseMs, pauseMs * 2)) {
      try {
        current = await openSession(library, options, events, signal)
        pauseMs = firstPauseMs
        events.alive()
        events.failed(await Promise.race([current.failed, ended.promise]))
      } catch (error) {
        events.failed(error)
      }
      await current?.close()
      current = undefined
      events.assigned()
      await delay(pauseMs * (0.5 + Math.random() / 2), undefined, { signal }).catch(() => {})
    }
  }
  const running = run()
  return {
    get current() {
      return current
    },
    async close() {
      stop.abort()
      ended.resolve()
      await running
    },
  }
}
