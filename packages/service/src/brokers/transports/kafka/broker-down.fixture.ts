import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { KafkaServer } from '../../../../../../scripts/engines/kafka.ts'
import { kafkaPublisher, kafkaTransport } from '../kafka.ts'
import type { Publisher, Transport } from '../transport.ts'
import { nameOf, newPlace, take, until } from './kafka.fixture.ts'
import { message } from './publisher.fixture.ts'

const total = 400
const never = new AbortController().signal

/** Kills and restarts the server of the transport's tests; no other test may run on it meanwhile. */
export function testBrokerDown(server: KafkaServer): void {
  test('a broker that is killed under load and restarted loses no message', async (t) => {
    const place = await newPlace(server, 2)
    const transport = await kafkaTransport({ ...place.options, requestTimeoutMs: 1_000 })
    const publisher = await kafkaPublisher({ ...place.options, requestTimeoutMs: 1_000 })
    t.after(() => Promise.all([transport.close(), publisher.close(), place.close()]))
    const load = { seen: new Set<string>(), refused: 0, again: 0 }
    const sending = sendAll(publisher, place.topic, load)
    const receiving = receiveAll(transport, load)
    await until(async () => load.seen.size > total / 4)
    server.kill()
    await until(async () => load.refused > 0 && load.again > 0)
    await server.restart()
    await Promise.all([sending, receiving])
    assert.equal(load.seen.size, total)
    await until(async () => (await transport.lag?.()) === 0)
  })

  test('a broker that hangs is reported as unavailable, and does not delay close', async (t) => {
    const place = await newPlace(server, 1)
    const options = { ...place.options, requestTimeoutMs: 300, sessionTimeoutMs: 1_000 }
    const transport = await kafkaTransport(options)
    const publisher = await kafkaPublisher(options)
    t.after(() => Promise.all([transport.close(), publisher.close(), place.close()]))
    await place.send(['before'])
    await transport.settle(await take(transport, 1))
    server.pause()
    try {
      await assert.rejects(transport.receive(1, never), { code: 'STORE_UNAVAILABLE' })
      assert.equal((await publisher.send([message(place.topic, 'x')], never))[0]?.kind, 'again')
      const late = await kafkaTransport({ ...options, clientId: 'late' })
      await assert.rejects(late.receive(1, never), { code: 'STORE_UNAVAILABLE' })
      await Promise.all([late.close(), publisher.close()])
    } finally {
      server.resume()
    }
    await place.send(['after'])
    const names = new Set<string>()
    await until(async () => {
      const deliveries = await transport.receive(1, never).catch(() => [])
      for (const one of deliveries) names.add(nameOf(one))
      return names.has('after')
    })
  })
}

interface Load {
  readonly seen: Set<string>
  refused: number
  again: number
}

/** The last messages wait until the broker was down, so that it has some left to deliver. */
async function sendAll(publisher: Publisher, topic: string, load: Load): Promise<void> {
  let left = Array.from({ length: total }, (_, index) => message(topic, `n${index}`))
  while (left.length > 0) {
    const early = load.again === 0 && left.length <= total / 4
    const some = early ? [message(topic, 'n0')] : left.slice(0, 10)
    const answers = await publisher.send(some, never)
    const unsent = some.filter((_, index) => answers[index]?.kind !== 'sent')
    load.again += unsent.length
    left = [...(early ? left : left.slice(some.length)), ...unsent]
  }
}

async function receiveAll(transport: Transport, load: Load): Promise<void> {
  while (load.seen.size < total) {
    try {
      const deliveries = await transport.receive(50, never)
      for (const one of deliveries) load.seen.add(nameOf(one))
      await transport.settle(deliveries)
    } catch (error) {
      assert.equal((error as { code?: string }).code, 'STORE_UNAVAILABLE')
      load.refused += 1
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
}
