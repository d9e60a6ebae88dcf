import type { ClusterMetadata, Consumer } from '@platformatic/kafka'
import type { Message } from '../transport.ts'
import { clientOptions, closeClient, hasApiError, type Library, quiet } from './client.ts'
import type { Member, MemberOptions } from './member.ts'

export interface ReaderEvents {
  /** Whether more may be read now; when that changes, the owner calls `look`. */
  hasCapacity(): boolean
  took(taken: readonly Taken[]): void
  answered(): void
  failed(error: unknown): void
}

/** Reads the partitions of a member, each from the broker that leads it, one request to each broker at a time. */
export interface Reader {
  /** Reads on: the buffer has space again, or the assignment changed. */
  look(): void
  /** The number of messages above the settled ones, in the assigned partitions. */
  lag(settled: (partition: Partition) => bigint): Promise<number>
  close(): Promise<void>
}

const waitMs = 500
const bytesOfFetch = 4 * 1024 * 1024
const bytesOfPartition = 1024 * 1024
const pauseMs = 500

/** Uses connections of its own, so that no other request waits behind a long fetch. */
export function createReader(library: Library, options: MemberOptions, member: Member, events: ReaderEvents): Reader {
  const { topics, group } = options
  const client = quiet(new library.Consumer({ ...clientOptions(options), groupId: group, retries: 0 }))
  for (const topic of topics) client.topics.track(topic)
  const busy = new Set<number>()
  const timers = new Set<NodeJS.Timeout>()
  let looking = false
  let again = false
  let closed = false
  let known: number | undefined
  let failures = 0

  /** A leader that moved is found at the second attempt, so the first failure is not reported. */
  const fail = (error: unknown): void => {
    if (closed) return
    failures += 1
    if (failures > 1) events.failed(error)
    client.clearMetadata()
    const timer = setTimeout(
      () => {
        timers.delete(timer)
        look()
      },
      pauseMs * (0.5 + Math.random()),
    )
    timers.add(timer)
  }
  /** New partitions are assigned by a rebalance. */
  const noticeGrowth = async (metadata: ClusterMetadata): Promise<void> => {
    const count = [...metadata.topics.values()].reduce((sum, topic) => sum + topic.partitionsCount, 0)
    if (known !== undefined && known < count) await member.rejoin()
    known = count
  }
  const lookOnce = async (): Promise<void> => {
    again = false
    const metadata = await client.metadata({ topics: [...topics] })
    await noticeGrowth(metadata)
    if (closed || !events.hasCapacity()) return
    for (const [node, partitions] of byLeader(metadata, member.partitions.values())) {
      if (!busy.has(node)) void read(node, partitions, metadata)
    }
  }
  const look = (): void => {
    again = true
    if (looking || closed || !events.hasCapacity()) return
    looking = true
    lookOnce()
      .catch(fail)
      .finally(() => {
        looking = false
        if (again) look()
      })
  }
  const read = async (node: number, partitions: readonly Partition[], metadata: ClusterMetadata): Promise<void> => {
    busy.add(node)
    let failure: unknown
    try {
      const response = await client.fetch({
        node,
        maxWaitTime: waitMs,
        minBytes: 1,
        maxBytes: bytesOfFetch,
        topics: partitions.map((partition) => requestOf(partition, metadata)),
      })
      if (closed) return
      for (const { partition, batches } of readOf(response, partitions, metadata)) {
        if (!partition.lost) events.took(takeRecords(partition, batches))
      }
      failures = 0
      events.answered()
    } catch (error) {
      failure = await beginAgain(error, partitions, metadata).catch((other: unknown) => other)
    } finally {
      busy.delete(node)
    }
    if (failure === undefined) look()
    else fail(failure)
  }
  /** The next offset was removed by retention, or lost with a broker: reading continues at the earliest offset. */
  const beginAgain = async (
    error: unknown,
    partitions: readonly Partition[],
    metadata: ClusterMetadata,
  ): Promise<unknown> => {
    if (!hasApiError(error, 'OFFSET_OUT_OF_RANGE')) return error
    const { response } = error as { readonly response?: FetchResponse }
    const gone = response === undefined ? partitions : outOfRange(response, partitions, metadata)
    for (const partition of gone) await member.restart(partition)
    return gone.length === 0 ? error : undefined
  }
  return {
    look,
    async lag(settled) {
      const ours = [...member.partitions.values()]
      if (ours.length === 0) return 0
      const ends = await client.listOffsets({ topics: [...topics] })
      const behind = ours.map((partition) => (ends.get(partition.topic)?.[partition.index] ?? 0n) - settled(partition))
      return behind.reduce((sum, count) => sum + Math.max(0, Number(count)), 0)
    },
    async close() {
      closed = true
      for (const timer of timers) clearTimeout(timer)
      await closeClient(client)
    },
  }
}

function byLeader(metadata: ClusterMetadata, partitions: Iterable<Partition>): Map<number, Partition[]> {
  const leaders = new Map<number, Partition[]>()
  for (const partition of partitions) {
    const leader = metadata.topics.get(partition.topic)?.partitions[partition.index]?.leader ?? -1
    const led = leaders.get(leader) ?? []
    led.push(partition)
    leaders.set(leader, led)
  }
  return leaders
}

function requestOf({ topic, index, next }: Partition, metadata: ClusterMetadata) {
  const position = { partition: index, fetchOffset: next, partitionMaxBytes: bytesOfPartition }
  const partitions = [{ ...position, currentLeaderEpoch: -1, lastFetchedEpoch: -1 }]
  return { topicId: metadata.topics.get(topic)?.id ?? '', partitions }
}

function* answers(response: FetchResponse, partitions: readonly Partition[], metadata: ClusterMetadata) {
  const asked = new Map(partitions.map((one) => [`${metadata.topics.get(one.topic)?.id}/${one.index}`, one]))
  for (const topic of response.responses) {
    for (const answer of topic.partitions) {
      const partition = asked.get(`${topic.topicId}/${answer.partitionIndex}`)
      if (partition !== undefined) yield { partition, answer }
    }
  }
}

function readOf(response: FetchResponse, partitions: readonly Partition[], metadata: ClusterMetadata) {
  return [...answers(response, partitions, metadata)].map(({ partition, answer }) => {
    return { partition, batches: answer.records ?? [] }
  })
}

const offsetOutOfRange = 1

function outOfRange(response: FetchResponse, partitions: readonly Partition[], metadata: ClusterMetadata): Partition[] {
  return [...answers(response, partitions, metadata)].flatMap(({ partition, answer }) =>
    answer.errorCode === offsetOutOfRange ? [partition] : [],
  )
}

/** The response of a broker to a fetch. */
type FetchResponse = Awaited<ReturnType<Consumer['fetch']>>

type Batch = NonNullable<FetchResponse['responses'][number]['partitions'][number]['records']>[number]
type KafkaRecord = Batch['records'][number]

const control = 0b10_0000

/** Takes the messages of a fetch and advances the offset, also past records that are not messages. */
function takeRecords(partition: Partition, batches: readonly Batch[]): Taken[] {
  const taken: Taken[] = []
  for (const batch of batches) {
    for (const record of (batch.attributes & control) === 0 ? batch.records : []) {
      const offset = batch.firstOffset + BigInt(record.offsetDelta)
      // Batches are sent completely, also for an offset in their middle.
      if (offset >= partition.next) taken.push(take(partition, offset, messageOf(partition, offset, record)))
    }
    const behind = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n
    if (behind > partition.next) partition.next = behind
  }
  return taken
}

/** Copies the bytes, so that one message in flight does not retain the whole response. */
function messageOf({ topic, index }: Partition, offset: bigint, { value, headers }: KafkaRecord): Taken['message'] {
  return {
    bytes: Uint8Array.from(value ?? []),
    headers: new Map(headers.map(([name, bytes]) => [name?.toString() ?? '', Uint8Array.from(bytes ?? [])])),
    source: topic,
    position: `${index}/${offset}`,
  }
}

/**
 * An assigned partition, and the messages that were read of it. Messages are settled in any order, but Kafka commits
 * one offset: everything below it is done. So that is the lowest unsettled offset, and everything above it is delivered
 * again when this member has left, settled or not. A revoked partition is lost for good; when it is assigned again, it
 * is a new object, from the committed offset.
 */
export interface Partition {
  readonly topic: string
  readonly index: number
  /** The offset to read next. */
  next: bigint
  /** The committed offset. */
  committed: bigint
  /** Read and not settled, in the order of their offsets. */
  readonly open: Map<bigint, Taken>
  lost: boolean
}

/** A message that was read, until it is settled. */
export interface Taken {
  readonly partition: Partition
  readonly offset: bigint
  readonly message: Message
  /** The number of deliveries. */
  deliveries: number
}

export function newPartition(topic: string, index: number, start: bigint): Partition {
  return { topic, index, next: start, committed: start, open: new Map(), lost: false }
}

/** The lowest unsettled offset. */
export function lowestOpen({ open, next }: Partition): bigint {
  return open.keys().next().value ?? next
}

export function take(partition: Partition, offset: bigint, message: Message): Taken {
  const taken = { partition, offset, message, deliveries: 0 }
  partition.open.set(offset, taken)
  return taken
}

/** Marks the partition as revoked: none of its messages can be settled from now on. */
export function lose(partition: Partition): void {
  partition.lost = true
  partition.open.clear()
}

/** Whether the message is neither settled nor of a revoked partition. */
export function isOpen(taken: Taken): boolean {
  return taken.partition.open.get(taken.offset) === taken
}

/** The approximate size in memory. */
export function sizeOf({ message }: Taken): number {
  return message.bytes.byteLength + message.headers.size * 64
}
