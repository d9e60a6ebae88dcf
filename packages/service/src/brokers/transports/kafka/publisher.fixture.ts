import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import type { KafkaServer } from '../../../../../../scripts/engines/kafka.ts'
import { kafkaPublisher, kafkaTransport } from '../kafka.ts'
import type { Outgoing } from '../transport.ts'
import { nameOf, newPlace, type Place, take } from './kafka.fixture.ts'

const never = new AbortController().signal

/** The tests of the publisher, on the server of the transport's tests. */
export function testPublisher(server: KafkaServer): void {
  const connection = { brokers: [server.brokers], clientId: 'publisher' }
  const read = async (place: Place, count: number): Promise<string[]> => {
    const transport = await kafkaTransport(place.options)
    try {
      return (await take(transport, count)).map(nameOf)
    } finally {
      await transport.close()
    }
  }
  const withPlace = (title: string, partitions: number, work: (place: Place) => Promise<void>): void => {
    test(title, async () => {
      const place = await newPlace(server, partitions)
      await work(place).finally(() => place.close())
    })
  }

  describe('kafka publisher', { concurrency: 4 }, () => {
    withPlace('the publisher delivers messages, those with the same key in order', 3, async (place) => {
      const publisher = await kafkaPublisher(connection)
      const some = Array.from({ length: 60 }, (_, n) => message(place.topic, `${n % 3}-${n}`, { key: `${n % 3}` }))
      const answers = await Promise.all([
        publisher.send(some.slice(0, 30), never),
        publisher.send(some.slice(30), never),
      ])
      assert.deepEqual(
        answers.flat(),
        some.map(() => ({ kind: 'sent' })),
      )
      await publisher.close()
      const names = await read(place, 60)
      for (const key of ['0', '1', '2']) {
        const numbers = names.filter((name) => name.startsWith(`${key}-`)).map((name) => Number(name.slice(2)))
        assert.deepEqual(
          numbers,
          [...numbers].sort((a, b) => a - b),
        )
        assert.equal(numbers.length, 20)
      }
    })

    withPlace('headers and bytes arrive unchanged', 1, async (place) => {
      const publisher = await kafkaPublisher(connection)
      const bytes = new Uint8Array([0, 255, 7]).subarray(1)
      await publisher.send([{ to: place.topic, bytes, headers: { trace: 'ä' } }], never)
      await publisher.close()
      const transport = await kafkaTransport(place.options)
      const [{ body } = assert.fail()] = await take(transport, 1)
      assert.ok(body.kind === 'message')
      assert.deepEqual([...body.message.bytes], [255, 7])
      assert.equal(Buffer.from(body.message.headers.get('trace') ?? []).toString(), 'ä')
      await transport.close()
    })

    withPlace('a message over the size limit is never sent, and the others of its batch are', 1, async (place) => {
      const publisher = await kafkaPublisher(connection)
      const large = { to: place.topic, bytes: new Uint8Array(3_000_000) }
      const answers = await publisher.send([message(place.topic, 'a'), large, message(place.topic, 'b')], never)
      assert.deepEqual(
        answers.map(({ kind }) => kind),
        ['sent', 'never', 'sent'],
      )
      // Together they exceed the size of one batch.
      const many = Array.from({ length: 8 }, () => ({ to: place.topic, bytes: new Uint8Array(500_000) }))
      const kinds = (await publisher.send(many, never)).map(({ kind }) => kind)
      assert.deepEqual(
        kinds,
        many.map(() => 'sent'),
      )
      await publisher.close()
      assert.deepEqual((await read(place, 2)).sort(), ['a', 'b'])
    })

    withPlace('a missing topic is created, and a message for an invalid topic is never sent', 1, async (place) => {
      const publisher = await kafkaPublisher(connection)
      const topic = `${place.topic}-new`
      const answers = await publisher.send(
        [message('not a topic', 'a'), message(topic, 'b'), message('..', 'c'), message(place.topic, 'd')],
        never,
      )
      assert.deepEqual(
        answers.map(({ kind }) => kind),
        ['never', 'sent', 'never', 'sent'],
      )
      await publisher.close()
      assert.deepEqual(await read({ ...place, options: { ...place.options, topics: [topic] } }, 1), ['b'])
    })

    withPlace(
      'the publisher waits no longer than its timeout, also when the broker is unreachable',
      1,
      async (place) => {
        const nowhere = await kafkaPublisher({ ...connection, brokers: ['127.0.0.1:9'], requestTimeoutMs: 300 })
        const [unavailable] = await nowhere.send([message(place.topic, 'a')], never)
        assert.deepEqual(unavailable, { kind: 'again', error: 'Kafka cannot be reached or does not answer.' })
        await nowhere.close()
        const publisher = await kafkaPublisher(connection)
        const [given] = await publisher.send([message(place.topic, 'a')], AbortSignal.abort())
        assert.equal(given?.kind, 'again')
        await publisher.close()
        const [late] = await publisher.send([message(place.topic, 'a')], never)
        assert.equal(late?.kind, 'again')
      },
    )

    withPlace('wrong credentials are reported as wrong, without any part of them', 1, async (place) => {
      const { brokers, username } = server.guarded
      const sasl = { mechanism: 'PLAIN' as const, username, password: 'wrong-password' }
      const publisher = await kafkaPublisher({ ...connection, brokers: [brokers], sasl })
      const [answer] = await publisher.send([message(place.topic, 'a')], never)
      assert.deepEqual(answer, { kind: 'again', error: 'Kafka refused the credentials.' })
      await publisher.close()
    })
  })
}

export function message(to: string, name: string, more: Partial<Outgoing> = {}): Outgoing {
  return { to, bytes: Buffer.from(name), ...more }
}
