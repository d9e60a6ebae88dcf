import type { Consumer } from '@platformatic/kafka'
import { type Partition, type Taken, take } from './partition.ts'

/** What a broker answers to a read. */
export type FetchResponse = Awaited<ReturnType<Consumer['fetch']>>

type Batch = NonNullable<FetchResponse['responses'][number]['partitions'][number]['records']>[number]
type KafkaRecord = Batch['records'][number]

const control = 0b10_0000

/** Takes what was read for a partition and moves on behind it; also behind what is not a message. */
export function takeRecords(partition: Partition, batches: readonly Batch[]): Taken[] {
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
