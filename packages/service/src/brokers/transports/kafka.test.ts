import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { after, describe, test } from 'node:test'
import { Admin, Producer } from '@platformatic/kafka'
import { type TransportFixture, testTransport } from '../../conformance/transport.ts'
import { countFetches, kafkaServer, nameOf, newPlace, type Place, take, until } from './kafka/kafka.fixture.ts'
import { testPublisher } from './kafka/publisher.fixture.ts'
import { type KafkaTransportOptions, kafkaTransport } from './kafka.ts'
import type { Delivery, Transport } from './transport.ts'

const server = await kafkaServer()
const never = new AbortController().signal

if (typeof server === 'string') {
  test('Kafka transport', { skip: server })
} else {
  // A failed test leaves its resources open; they are closed here, so that the run ends.
  const opened: { close(): Promise<void> }[] = []
  const keep = <T extends { close(): Promise<void> }>(one: T): T => {
    opened.push(one)
    return one
  }
  after(async () => {
    await Promise.all(opened.map((one) => one.close()))
    await server.stop()
  })
  const makePlace = async (partitions: number): Promise<Place> => keep(await newPlace(server, partitions))
  const open = async (options: KafkaTransportOptions): Promise<Transport> => keep(await kafkaTransport(options))

  testTransport('kafka transport', async (): Promise<TransportFixture> => {
    const place = await makePlace(2)
    const transport = await open(place.options)
    const other = await open({ ...place.options, clientId: 'two' })
    const shares = await until(async () => {
      const members = await place.members()
      return members?.size === 2 && [...members.values()].every(({ length }) => length === 1) && members
    })
    const mine = shares.get('one')?.[0] ?? 0
    return {
      transport,
      other,
      idOf: nameOf,
      countsDeaths: false,
      releasesTo: 'holder',
      // A few go to the first consumer, many to both: in Kafka the producer selects the partition.
      send: (ids) => place.send(ids, (index) => (ids.length < 10 ? mine : index % 2)),
      expire: () => transport.close(),
      commit: async () => undefined,
      close: async () => {
        await Promise.all([transport.close(), other.close(), place.close()])
      },
    }
  })

  describe('kafka transport', { concurrency: 4 }, () => {
    const withTransport = (
      title: string,
      partitions: number,
      work: (transport: Transport, place: Place) => Promise<void>,
    ): void => {
      test(title, async () => {
        const place = await makePlace(partitions)
        const transport = await open(place.options)
        try {
          await work(transport, place)
        } finally {
          await transport.close()
          await place.close()
        }
      })
    }

    withTransport('Kafka commits the offset of the lowest message that is not settled', 1, async (transport, place) => {
      await place.send(names(6))
      const taken = await take(transport, 6)
      await transport.settle(pick(taken, 1, 4))
      assert.deepEqual(await place.marks(), [-1])
      await transport.settle(pick(taken, 0))
      assert.deepEqual(await place.marks(), [2])
      await transport.settle(pick(taken, 3, 5))
      assert.deepEqual(await place.marks(), [2])
      await transport.settle(pick(taken, 2))
      assert.deepEqual(await place.marks(), [6])
      assert.equal(await transport.lag?.(), 0)
      await place.send(names(3))
      assert.equal(await transport.lag?.(), 3)
    })

    withTransport(
      'a released message is delivered again later, and keeps its offset uncommitted',
      1,
      async (transport, place) => {
        await place.send(names(3))
        const taken = await take(transport, 3)
        await transport.release(pick(taken, 1), 200)
        await transport.settle(pick(taken, 0, 2))
        assert.deepEqual(await place.marks(), [1])
        const again = await take(transport, 1)
        assert.deepEqual(again.map(nameOf), ['m001'])
        assert.equal(again[0]?.deliveries, 2)
        await transport.settle(again)
        assert.deepEqual(await place.marks(), [3])
      },
    )

    test('another consumer gets the messages that a killed one did not settle, and none below its committed offset', async () => {
      const place = await makePlace(1)
      const options = { ...place.options, sessionTimeoutMs: 1_000 }
      await place.send(names(6))
      const program = join(import.meta.dirname, 'kafka/killed.fixture.ts')
      const child = spawn(process.execPath, [program, JSON.stringify(options)], {
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      await once(child.stdout, 'data')
      child.kill('SIGKILL')
      const transport = await open({ ...place.options, clientId: 'two' })
      const again = await take(transport, 4)
      assert.deepEqual(again.map(nameOf), ['m002', 'm003', 'm004', 'm005'])
      await transport.settle(again)
      assert.deepEqual(await place.marks(), [6])
      await transport.close()
      await place.close()
    })

    withTransport(
      'a partition that moves to another consumer is settled by that consumer',
      2,
      async (transport, place) => {
        await place.send(names(20), (index) => index % 2)
        const mine = await take(transport, 20)
        const other = await open({ ...place.options, clientId: 'two' })
        const theirs = await take(other, 10)
        const moved = new Set(theirs.map(nameOf))
        await transport.settle(mine)
        const index = Number(positionOf(theirs[0]).split('/')[0])
        const marks = await place.marks()
        assert.deepEqual([marks[index], marks[1 - index]], [-1, 10])
        assert.equal(moved.size, 10)
        await transport.release(
          mine.filter((one) => moved.has(nameOf(one))),
          0,
        )
        await other.settle(theirs)
        assert.deepEqual(await place.marks(), [10, 10])
        await other.close()
        // When the other has left, both partitions are ours again, from its committed offsets.
        await place.send(['later', 'last'], (at) => at)
        const rest = await take(transport, 2)
        assert.deepEqual(rest.map(nameOf).sort(), ['last', 'later'])
        await transport.settle(rest)
        assert.deepEqual(await place.marks(), [11, 11])
      },
    )

    test('a consumer that is not read from stays in the group', async () => {
      const place = await makePlace(1)
      const sessionTimeoutMs = 1_000
      const fetches = countFetches(place.options.group)
      const transport = await open({ ...place.options, sessionTimeoutMs })
      await place.send(names(3_000))
      const taken = await take(transport, 1)
      const since = performance.now()
      await until(async () => performance.now() - since > sessionTimeoutMs)
      const enough = fetches.count
      await until(async () => performance.now() - since > 2.5 * sessionTimeoutMs)
      assert.equal(fetches.count, enough, 'it fetches although it is not read from')
      assert.deepEqual([...((await place.members())?.keys() ?? [])], ['one'])
      // Had it left the group in between, these messages would be delivered again.
      const rest = await take(transport, 2_999)
      assert.deepEqual([...taken, ...rest].map(nameOf), names(3_000))
      await transport.settle([...taken, ...rest])
      assert.deepEqual(await place.marks(), [3_000])
      fetches.stop()
      await transport.close()
      await place.close()
    })

    withTransport('empty, large and binary messages arrive unchanged', 1, async (transport, { topic }) => {
      const producer = new Producer({ clientId: 'odd', bootstrapBrokers: [server.brokers] })
      const odd = Buffer.from([0, 255, 128])
      const large = Buffer.alloc(1_900_000, 7)
      const headers = new Map([
        [Buffer.from('bytes'), odd],
        [Buffer.from('nothing'), Buffer.alloc(0)],
        [Buffer.from('__proto__'), Buffer.from('x')],
      ])
      for (const value of [Buffer.alloc(0), undefined, large, odd]) {
        const message = { topic, key: odd, headers, ...(value === undefined ? {} : { value }) }
        await producer.send({ messages: [message], acks: -1, compression: 'gzip' })
      }
      await producer.close()
      const taken = await take(transport, 4)
      const messages = taken.map(({ body }) => (body.kind === 'message' ? body.message : assert.fail()))
      assert.deepEqual(
        messages.map(({ bytes }) => bytes.byteLength),
        [0, 0, large.byteLength, 3],
      )
      assert.ok(large.equals(messages[2]?.bytes ?? odd))
      for (const message of messages) {
        assert.deepEqual(
          [...message.headers].map(([name, bytes]) => [name, [...bytes]]),
          [
            ['bytes', [0, 255, 128]],
            ['nothing', []],
            ['__proto__', [120]],
          ],
        )
      }
      assert.deepEqual(
        messages.map(({ source, position }) => [source, position]),
        [0, 1, 2, 3].map((n) => [topic, `0/${n}`]),
      )
      assert.equal(taken[0]?.id, `${topic}/0/0`)
      await transport.settle(taken)
    })

    test('a committed offset that Kafka no longer has is replaced by the earliest one that it has', async () => {
      const place = await makePlace(1)
      await place.send(names(3))
      const admin = new Admin({ clientId: 'admin', bootstrapBrokers: [server.brokers] })
      const partitionOffsets = [{ partition: 0, offset: 999n }]
      const { group: groupId } = place.options
      await admin.alterConsumerGroupOffsets({ groupId, topics: [{ name: place.topic, partitionOffsets }] })
      await admin.close()
      const transport = await open(place.options)
      const taken = await take(transport, 3)
      assert.deepEqual(taken.map(nameOf), names(3))
      await transport.close()
      await place.close()
    })

    withTransport('partitions that are added later are read too', 1, async (transport, place) => {
      await place.send(['first'])
      await transport.settle(await take(transport, 1))
      const admin = new Admin({ clientId: 'admin', bootstrapBrokers: [server.brokers] })
      await admin.createPartitions({ topics: [{ name: place.topic, count: 2, assignments: [{ brokerIds: [1] }] }] })
      await until(async () => {
        const { topics } = await admin.metadata({ topics: [place.topic], forceUpdate: true })
        return topics.get(place.topic)?.partitionsCount === 2
      })
      await admin.close()
      const producer = new Producer({
        clientId: 'late',
        bootstrapBrokers: [server.brokers],
        retries: 50,
        retryDelay: 100,
      })
      await producer.send({ messages: [{ topic: place.topic, value: Buffer.from('second'), partition: 1 }], acks: -1 })
      await producer.close()
      assert.deepEqual((await take(transport, 1)).map(positionOf), ['1/0'])
    })

    test('a missing topic is created', async () => {
      const place = await makePlace(1)
      const topic = `${place.topic}-later`
      const transport = await open({ ...place.options, topics: [topic] })
      const admin = new Admin({ clientId: 'admin', bootstrapBrokers: [server.brokers] })
      await until(async () => (await admin.listTopics()).includes(topic))
      await admin.close()
      await transport.close()
      await place.close()
    })

    test('the consumer uses the credentials, and reports wrong ones as wrong', async () => {
      const place = await makePlace(1)
      const { brokers, username, password } = server.guarded
      const sasl = { mechanism: 'PLAIN' as const, username, password }
      await place.send(['a'])
      const transport = await open({ ...place.options, brokers: [brokers], sasl })
      assert.deepEqual((await take(transport, 1)).map(nameOf), ['a'])
      await transport.close()
      const wrong = { ...sasl, password: 'wrong-password' }
      const refused = await open({ ...place.options, brokers: [brokers], sasl: wrong })
      await assert.rejects(refused.receive(1, never), (error: Error) => {
        assert.match(error.message, /refused the credentials/)
        return (error as { code?: string }).code === 'STORE_UNAVAILABLE' && !error.message.includes('wrong-password')
      })
      await refused.close()
      await place.close()
    })

    test('consumers that are closed while they join leave nothing that keeps their process alive', async () => {
      const place = await makePlace(1)
      const program = join(import.meta.dirname, 'kafka/closing.fixture.ts')
      const child = spawn(process.execPath, [program, JSON.stringify(place.options)], { stdio: 'inherit' })
      const late = setTimeout(() => child.kill('SIGKILL'), 60_000)
      assert.deepEqual(await once(child, 'exit'), [0, null])
      clearTimeout(late)
    })

    test('without a broker, receive rejects and close does not', async () => {
      const options = { brokers: ['127.0.0.1:9'], clientId: 'one', group: 'g', topics: ['t'], requestTimeoutMs: 500 }
      const transport = await open(options)
      await assert.rejects(transport.receive(1, never), { code: 'STORE_UNAVAILABLE' })
      await assert.rejects(transport.lag?.() ?? Promise.resolve(), { code: 'STORE_UNAVAILABLE' })
      await transport.close()
      assert.deepEqual(await transport.receive(1, never), [])
    })
  })
  testPublisher(server)
}

function names(count: number): string[] {
  return Array.from({ length: count }, (_, index) => `m${String(index).padStart(3, '0')}`)
}

function pick(deliveries: readonly Delivery[], ...indexes: readonly number[]): Delivery[] {
  return deliveries.filter((_, index) => indexes.includes(index))
}

function positionOf(delivery: Delivery | undefined): string {
  return delivery?.body.kind === 'message' ? delivery.body.message.position : ''
}
