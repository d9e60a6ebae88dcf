import { setTimeout as delay } from 'node:timers/promises'
import { onAbort } from '@gantry/core/internal/resilience/abort'
import { clientOptions, closeClient, type KafkaConnection, type Library, quiet } from './client.ts'
import { lose, newPartition, type Partition } from './reader.ts'

export interface MemberOptions extends KafkaConnection {
  readonly group: string
  readonly topics: readonly string[]
  /** The time without a heartbeat after which the group reassigns our partitions. */
  readonly sessionTimeoutMs: number
}

/** The events of a member; no handler may throw. */
export interface MemberEvents {
  /** The assignment changed; partitions that were revoked are marked lost already. */
  assigned(): void
  /** The group answered a heartbeat. */
  alive(): void
  /** A heartbeat failed; the next may succeed. */
  troubled(error: unknown): void
  /** The member is out of the group and cannot rejoin. */
  failed(error: unknown): void
}

/** A member of a consumer group, which assigns each partition to one member. */
export interface Member {
  readonly partitions: ReadonlyMap<string, Partition>
  /** Rejects when the group refuses; the offsets may or may not be committed then. */
  commit(marks: readonly { readonly partition: Partition; readonly offset: bigint }[]): Promise<void>
  /** Restarts a partition at the earliest offset that Kafka still has. */
  restart(partition: Partition): Promise<void>
  /** Starts a rebalance. */
  rejoin(): Promise<void>
  close(): Promise<void>
}

interface Round {
  readonly memberId: string
  readonly generation: number
}

const earliest = -2n
/** The timeout for leaving the group. */
const leaveMs = 1_000

/**
 * Joins a group. The library sends heartbeats on a connection of its own, independent of reading. After each rebalance
 * the member keeps the partitions that it had before and has now, with their open messages, if it missed no generation
 * in between; otherwise another member may have had them.
 */
export async function joinGroup(
  library: Library,
  options: MemberOptions,
  events: MemberEvents,
  signal: AbortSignal,
): Promise<Member> {
  const { group, topics, sessionTimeoutMs } = options
  const consumer = quiet(
    new library.Consumer({
      ...clientOptions(options),
      groupId: group,
      sessionTimeout: sessionTimeoutMs,
      rebalanceTimeout: sessionTimeoutMs,
      heartbeatInterval: Math.ceil(sessionTimeoutMs / 5),
      heartbeatStallTimeout: 2 * sessionTimeoutMs,
      // A join waits until all other members have rejoined.
      requestTimeout: sessionTimeoutMs + 5_000,
      retries: 3,
    }),
    events.failed,
  )
  const partitions = new Map<string, Partition>()
  let last: Round | undefined
  let rounds = 0
  let closed = false

  const keepOnly = (wanted: ReadonlySet<string>): void => {
    for (const [key, partition] of partitions) {
      if (wanted.has(key)) continue
      lose(partition)
      partitions.delete(key)
    }
  }
  const startsOf = async (added: ReadonlyMap<string, readonly number[]>): Promise<Partition[]> => {
    const names = [...added.keys()]
    const asked = names.map((topic) => ({ topic, partitions: [...(added.get(topic) ?? [])] }))
    const committed = await consumer.listCommittedOffsets({ topics: asked })
    const first = await consumer.listOffsets({ topics: names, timestamp: earliest })
    return asked.flatMap(({ topic, partitions: indexes }) =>
      indexes.map((index) => {
        const known = committed.get(topic)?.[index] ?? -1n
        return newPartition(topic, index, known >= 0n ? known : (first.get(topic)?.[index] ?? 0n))
      }),
    )
  }
  const assign = async (round: Round): Promise<void> => {
    const mine = ++rounds
    const now = consumer.assignments ?? []
    const continued = last?.memberId === round.memberId && round.generation <= last.generation + 1
    last = round
    keepOnly(new Set(continued ? now.flatMap((one) => one.partitions.map((index) => keyOf(one.topic, index))) : []))
    events.assigned()
    const added = new Map<string, readonly number[]>()
    for (const one of now) {
      const indexes = one.partitions.filter((index) => !partitions.has(keyOf(one.topic, index)))
      if (indexes.length > 0) added.set(one.topic, indexes)
    }
    if (added.size === 0) return
    const starts = await startsOf(added)
    // Another rebalance began meanwhile, and handles the assignment.
    if (mine !== rounds) return
    for (const partition of starts) partitions.set(keyOf(partition.topic, partition.index), partition)
    events.assigned()
  }
  const close = async (): Promise<void> => {
    closed = true
    rounds += 1
    keepOnly(new Set())
    // Leave first: a join in flight starts heartbeats when it ends, unless the member has left. Closed before that,
    // nothing would stop them.
    const stop = new AbortController()
    const patience = delay(leaveMs, undefined, { signal: stop.signal }).catch(() => undefined)
    const left = new Promise<void>((resolve) => consumer.leaveGroup(false, () => resolve()))
    await Promise.race([left, patience])
    stop.abort()
    await closeClient(consumer)
  }

  for (const topic of topics) consumer.topics.track(topic)
  consumer.on('consumer:group:join', ({ memberId, generationId = 0 }) => {
    assign({ memberId, generation: generationId }).catch(events.failed)
  })
  consumer.on('consumer:heartbeat:end', () => events.alive())
  consumer.on('consumer:heartbeat:error', ({ error }) => events.troubled(error))
  consumer.on('consumer:heartbeat:stalled', ({ lastError }) => events.failed(lastError))
  const stopListening = onAbort(signal, () => void close())
  try {
    signal.throwIfAborted()
    await consumer.joinGroup({})
    signal.throwIfAborted()
  } catch (error) {
    await close()
    throw error
  } finally {
    stopListening()
  }
  return {
    partitions,
    async commit(marks) {
      const offsets = marks.map(({ partition: { topic, index }, offset }) => {
        return { topic, partition: index, offset, leaderEpoch: -1 }
      })
      await consumer.commit({ offsets })
    },
    async restart(partition) {
      const { topic, index } = partition
      const first = await consumer.listOffsets({
        topics: [topic],
        partitions: { [topic]: [index] },
        timestamp: earliest,
      })
      if (partition.lost) return
      lose(partition)
      partitions.set(keyOf(topic, index), newPartition(topic, index, first.get(topic)?.[index] ?? 0n))
    },
    async rejoin() {
      if (closed) return
      consumer.clearMetadata()
      await consumer.joinGroup({})
    },
    close,
  }
}

function keyOf(topic: string, index: number): string {
  return `${topic}/${index}`
}
