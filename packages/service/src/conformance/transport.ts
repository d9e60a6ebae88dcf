import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Delivery, Transport } from '../brokers/transports/transport.ts'

/** A transport to test, and access to its broker. */
export interface TransportFixture {
  readonly transport: Transport
  /** Another consumer of the same calls. */
  readonly other: Transport
  /** Sends calls to the broker, in this order. */
  send(ids: readonly string[]): Promise<void>
  /** Makes the broker redeliver what is neither settled nor released, as when its consumer is lost. */
  expire(): Promise<void>
  /** The id that a delivery was sent with. */
  idOf(delivery: Delivery): string
  /** Makes durable what must be durable before a delivery is settled. */
  commit(deliveries: readonly Delivery[]): Promise<void>
  /** False when the broker does not count redeliveries of a lost consumer's messages. */
  readonly countsDeaths?: boolean
  /** Which consumer gets a released message: any, when absent, or the same one while it is connected. */
  readonly releasesTo?: 'holder'
  close(): Promise<void>
}

/** The contract of Transport. */
export function testTransport(name: string, make: () => Promise<TransportFixture>): void {
  const never = new AbortController().signal
  const withFixture = (title: string, work: (fixture: TransportFixture) => Promise<void>): void => {
    test(`${name}: ${title}`, async () => {
      const fixture = await make()
      try {
        await work(fixture)
      } finally {
        await fixture.close()
      }
    })
  }
  const settle = async ({ commit }: TransportFixture, transport: Transport, deliveries: readonly Delivery[]) => {
    await commit(deliveries)
    await transport.settle(deliveries)
  }
  const take = async (transport: Transport, count: number): Promise<Delivery[]> => {
    const taken: Delivery[] = []
    while (taken.length < count) taken.push(...(await transport.receive(count - taken.length, never)))
    return taken
  }

  withFixture('receive() delivers each message once, oldest first, and at most `max` of them', async (fixture) => {
    const { transport, send, idOf } = fixture
    await send(['a', 'b', 'c'])
    const first = await transport.receive(2, never)
    assert.ok(first.length <= 2)
    const all = [...first, ...(await take(transport, 3 - first.length))]
    assert.deepEqual(all.map(idOf), ['a', 'b', 'c'])
    assert.deepEqual(new Set(all.map(({ deliveries }) => deliveries)), new Set([1]))
    await settle(fixture, transport, all)
  })

  withFixture('a waiting receive() delivers a message that is sent later, once it is woken', async (fixture) => {
    const { transport, send, idOf } = fixture
    const waiting = transport.receive(10, never)
    await new Promise((resolve) => setImmediate(resolve))
    await send(['a'])
    transport.wake()
    const deliveries = await waiting
    assert.deepEqual(deliveries.map(idOf), ['a'])
    await settle(fixture, transport, deliveries)
  })

  withFixture('an aborted receive() delivers nothing and loses no message', async (fixture) => {
    const { transport, send, idOf } = fixture
    const stop = new AbortController()
    const waiting = transport.receive(10, stop.signal)
    await new Promise((resolve) => setImmediate(resolve))
    stop.abort()
    assert.deepEqual(await waiting, [])
    await send(['a'])
    const deliveries = await take(transport, 1)
    assert.deepEqual(deliveries.map(idOf), ['a'])
    await settle(fixture, transport, deliveries)
  })

  withFixture('two consumers never get the same message', async (fixture) => {
    const { transport, other, send, idOf } = fixture
    const ids = Array.from({ length: 40 }, (_, n) => `c${String(n).padStart(2, '0')}`)
    await send(ids)
    const [mine, theirs] = await Promise.all([take(transport, 20), take(other, 20)])
    assert.deepEqual([...mine, ...theirs].map(idOf).sort(), ids)
    await settle(fixture, transport, mine)
    await settle(fixture, other, theirs)
  })

  withFixture('a released message is delivered again with a higher delivery count', async (fixture) => {
    const { transport, other, send, idOf } = fixture
    const next = fixture.releasesTo === 'holder' ? transport : other
    await send(['a'])
    await transport.release(await take(transport, 1), 0)
    next.wake()
    const again = await take(next, 1)
    assert.deepEqual(again.map(idOf), ['a'])
    assert.equal(again[0]?.deliveries, 2)
    await settle(fixture, next, again)
  })

  withFixture(
    'messages of a lost consumer are delivered again with a higher count, and settled ones are not',
    async (fixture) => {
      const { transport, other, send, expire, idOf } = fixture
      await send(['a', 'b'])
      const [done, lost] = await take(transport, 2)
      assert.ok(done !== undefined && lost !== undefined)
      await settle(fixture, transport, [done])
      await expire()
      other.wake()
      const again = await take(other, 1)
      assert.deepEqual(again.map(idOf), [idOf(lost)])
      if (fixture.countsDeaths !== false) assert.ok((again[0]?.deliveries ?? 0) > 1)
      await settle(fixture, other, again)
      const stop = new AbortController()
      const rest = other.receive(10, stop.signal)
      setTimeout(() => stop.abort(), 50)
      assert.deepEqual(await rest, [])
    },
  )
}
