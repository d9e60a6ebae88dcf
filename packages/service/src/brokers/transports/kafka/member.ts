import { setTimeout as delay } from 'node:timers/promises'
import { clientOptions, closeClient, type KafkaConnection, type Library, quiet } from './client.ts'
import { lose, newPartition, type Partition } from './partition.ts'

export interface MemberOptions extends KafkaConnection {
  readonly group: string
  readonly topics: readonly string[]
  /** How long the group waits for a sign of life before it gives our partitions to others. */
  readonly sessionTimeoutMs: number
}

/** What a member has to say; none of these may throw. */
export interface MemberEvents {
  /** Other partitions are ours; what is no longer is lost already. */
  assigned(): void
  /** The group knows us. */
  alive(): void
  /** The group did not hear us; it may yet. */
  troubled(error: unknown): void
  /** We are out of the group and cannot get back in. */
  failed(error: unknown): void
}

/** Our place in a group of consumers, which gives each partition to one of them. */
export interface Member {
  readonly partitions: ReadonlyMap<string, Partition>
  /** Rejects when the group does not take it; then what was said may or may not be remembered. */
  commit(marks: readonly { readonly partition: Partition; readonly offset: bigint }[]): Promise<void>
  /** Starts it over from the first offset that Kafka still has. */
  restart(partition: Partition): Promise<void>
  /** Has the partitions given out anew. */
  rejoin(): Promise<void>
  close(): Promise<void>
}

interface Round {
  readonly memberId: string
  readonly generation: number
}

const earliest = -2n
/** How long the group is given to take our leave. */
const leaveMs = 1_000

/**
 * Joins a group. Signs of life are sent by the library on a connection of their own, whatever is read or not read.
 * After each giving out of partitions we keep those that were ours before and are ours now, with all that we hold of
 * them, if we missed no round in between; otherwise somebody else may have had them.
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
      // Whoever joins waits until all others have heard of it.
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
    // Another round began meanwhile; it has asked for itself.
    if (mine !== rounds) return
    for (const partition of starts) partitions.set(keyOf(partition.topic, partition.index), partition)
    events.assigned()
  }
  const close = async (): Promise<void> => {
    closed = true
    rounds += 1
    keepOnly(new Set())
    // Only who has left does not begin to beat when a join on its way ends; closed before, nothing would stop it again.
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
  const giveUp = (): void => void close()
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    signal.throwIfAborted()
    await consumer.joinGroup({})
    signal.throwIfAborted()
  } catch (error) {
    await close()
    throw error
  } finally {
    signal.removeEventListener('abort', giveUp)
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
