import type { Message } from '../message.ts'

/**
 * A partition that is ours, and what was read of it. Messages are settled in any order, but Kafka remembers one number:
 * everything below it is done. So the number is the lowest offset that is not settled, and what is above it comes again
 * when we are gone, settled or not.
 * A partition that is taken away is lost for good; when it comes back, it is another one, from what Kafka remembers.
 */
export interface Partition {
  readonly topic: string
  readonly index: number
  /** The offset to read next. */
  next: bigint
  /** What Kafka remembers. */
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
  /** How often it was handed over. */
  deliveries: number
}

export function newPartition(topic: string, index: number, start: bigint): Partition {
  return { topic, index, next: start, committed: start, open: new Map(), lost: false }
}

/** Everything below is settled. */
export function lowestOpen({ open, next }: Partition): bigint {
  return open.keys().next().value ?? next
}

export function take(partition: Partition, offset: bigint, message: Message): Taken {
  const taken = { partition, offset, message, deliveries: 0 }
  partition.open.set(offset, taken)
  return taken
}

/** Nothing of it can be settled from now on. */
export function lose(partition: Partition): void {
  partition.lost = true
  partition.open.clear()
}

/** Whether it still counts: neither settled nor taken away. */
export function isOpen(taken: Taken): boolean {
  return taken.partition.open.get(taken.offset) === taken
}

/** Its size in memory, about. */
export function sizeOf({ message }: Taken): number {
  return message.bytes.byteLength + message.headers.size * 64
}
