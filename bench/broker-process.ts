// A peer that consumes a broker's messages in a separate process until it is stopped.
import { randomUUID } from 'node:crypto'
import { Consumer, Producer } from '@platformatic/kafka'
import { createBatch } from '../packages/service/src/storage/batch.ts'
import { bullmqWorker } from './queue-peers.ts'

export type BrokerOrder =
  | { readonly kind: 'bullmq'; readonly port: number; readonly password: string; readonly concurrency: number }
  | {
      readonly kind: 'echo'
      readonly brokers: string
      readonly from: string
      readonly to: string
      /** The size of each reply. */
      readonly bytes: number
    }

const order = JSON.parse(process.argv[2] ?? '{}') as BrokerOrder
process.on('SIGTERM', () => process.exit())
if (order.kind === 'bullmq') await bullmqWorker(order, order.concurrency)
else await echo(order)
process.send?.('ready')

/** Reads and replies as fast as the client can, with the guarantees of the service: idempotent, with stored offsets. */
async function echo({ brokers, from, to, bytes }: Extract<BrokerOrder, { kind: 'echo' }>): Promise<void> {
  const client = { clientId: 'bench-echo', bootstrapBrokers: [brokers], retries: 2 }
  const producer = new Producer({ ...client, idempotent: true })
  const consumer = new Consumer({ ...client, groupId: randomUUID(), autocommit: 100 })
  const value = Buffer.alloc(bytes, 'x')
  const sending = createBatch<Buffer, void>(async (keys) => {
    await producer.send({ messages: keys.map((key) => ({ topic: to, key, value })) })
    return keys.map(() => undefined)
  })
  const stream = await consumer.consume({
    topics: [from],
    mode: 'committed',
    fallbackMode: 'earliest',
    maxWaitTime: 100,
  })
  stream.on('data', ({ key, offset }) => void sending.add(key ?? Buffer.from(String(offset))))
}
