import type { ClusterMetadata, Consumer } from '@platformatic/kafka'
import { clientOptions, closeClient, hasApiError, type Library, quiet } from './client.ts'
import type { Member, MemberOptions } from './member.ts'
import { type Partition, type Taken, take } from './partition.ts'

export interface ReaderEvents {
  /** Whether more may be read now; who makes room says `look`. */
  room(): boolean
  took(taken: readonly Taken[]): void
  answered(): void
  failed(error: unknown): void
}

/** Reads the partitions of a member, each from the broker that leads it, one request to each broker at a time. */
export interface Reader {
  /** Says that there is room, or that there are other partitions. */
  look(): void
  /** How many messages there are behind what is settled, in the partitions that are ours. */
  lag(settled: (partition: Partition) => bigint): Promise<number>
  close(): Promise<void>
}

const waitMs = 500
const bytesOfFetch = 4 * 1024 * 1024
const bytesOfPartition = 1024 * 1024
const pauseMs = 500

/** On connections of its own, so that nothing else waits behind a read that waits for messages. */
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

  /** A leader that moved is found at the second try, so that nobody need be told of the first. */
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
  /** A group learns of new partitions when it is given out anew. */
  const noticeGrowth = async (metadata: ClusterMetadata): Promise<void> => {
    const count = [...metadata.topics.values()].reduce((sum, topic) => sum + topic.partitionsCount, 0)
    if (known !== undefined && known < count) await member.rejoin()
    known = count
  }
  const lookOnce = async (): Promise<void> => {
    again = false
    const metadata = await client.metadata({ topics: [...topics] })
    await noticeGrowth(metadata)
    if (closed || !events.room()) return
    for (const [node, partitions] of byLeader(metadata, member.partitions.values())) {
      if (!busy.has(node)) void read(node, partitions, metadata)
    }
  }
  const look = (): void => {
    again = true
    if (looking || closed || !events.room()) return
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
        ...{ node, maxWaitTime: waitMs, minBytes: 1, maxBytes: bytesOfFetch },
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
  /** What we would read next was removed by age, or lost with a broker: we go on with the first that is there. */
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

type Answer = FetchResponse['responses'][number]['partitions'][number]

function* answers(response: FetchResponse, partitions: readonly Partition[], metadata: ClusterMetadata) {
  const asked = new Map(partitions.map((one) => [`${metadata.topics.get(one.topic)?.id}/${one.index}`, one]))
  for (const topic of response.responses) {
    for (const answer of topic.partitions) {
      const partition = asked.get(`${topic.topicId}/${answer.partitionIndex}`)
      if (partition !== undefined) yield { partition, answer: answer as Answer }
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

/** What a broker answers to a read. */
type FetchResponse = Awaited<ReturnType<Consumer['fetch']>>

type Batch = NonNullable<FetchResponse['responses'][number]['partitions'][number]['records']>[number]
type KafkaRecord = Batch['records'][number]

const control = 0b10_0000

/** Takes what was read for a partition and moves on behind it; also behind what is not a message. */
function takeRecords(partition: Partition, batches: readonly Batch[]): Taken[] {
  const taken: Taken[] = []
  for (const batch of batches) {
    for (const record of (batch.attributes & control) === 0 ? batch.records : []) {
      const offset = batch.firstOffset + BigInt(record.offsetDelta)
      // Batches are sent whole, also to whoever asks for what is in their middle.
      if (offset >= partition.next) taken.push(take(partition, offset, messageOf(partition, offset, record)))
    }
    const behind = batch.firstOffset + BigInt(batch.lastOffsetDelta) + 1n
    if (behind > partition.next) partition.next = behind
  }
  return taken
}

/** Copies, so that one message that is held for long does not hold the whole answer of the broker. */
function messageOf({ topic, index }: Partition, offset: bigint, { value, headers }: KafkaRecord): Taken['message'] {
  return {
    bytes: Uint8Array.from(value ?? []),
    headers: new Map(headers.map(([name, bytes]) => [name?.toString() ?? '', Uint8Array.from(bytes ?? [])])),
    source: topic,
    position: `${index}/${offset}`,
  }
}
