import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ToolError } from '@gantry/contract'
import { createConsumer } from './consumer.ts'
import type { Delivery, Transport } from './transports/transport.ts'

function delivery(id: string): Delivery {
  return { id, body: { kind: 'gone', source: 'test', position: id }, deliveries: 1 }
}

/** A transport that returns the scripted answers, then waits until it is aborted. */
function scripted(answers: readonly (readonly Delivery[] | Error)[]): Transport & { readonly asked: number[] } {
  const left = [...answers]
  const asked: number[] = []
  return {
    kind: 'scripted',
    asked,
    async receive(max, signal) {
      asked.push(max)
      const answer = left.shift()
      if (answer instanceof Error) throw answer
      if (answer !== undefined) return answer
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      return []
    },
    settle: async () => undefined,
    release: async () => undefined,
    wake: () => undefined,
    close: async () => undefined,
  }
}

function consumerOf(transport: Transport, freeSlots: () => number) {
  const taken: string[] = []
  const pauses: number[] = []
  const reported: string[] = []
  const consumer = createConsumer({
    transport,
    freeSlots,
    take: (deliveries) => void taken.push(...deliveries.map(({ id }) => id)),
    failed: (error: ToolError) => void reported.push(error.message),
    answered: () => void reported.push('answered'),
    random: () => 1,
    pause: async (ms) => void pauses.push(ms),
  })
  return { consumer, taken, pauses, reported }
}

const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve))
}

test('the consumer receives deliveries while slots are free', async () => {
  const stop = new AbortController()
  const transport = scripted([[delivery('a'), delivery('b')], [delivery('c')]])
  let freeSlots = 2
  const { consumer, taken } = consumerOf(transport, () => freeSlots)
  const running = consumer.run(stop.signal)
  await turns()
  assert.deepEqual(taken, ['a', 'b', 'c'])
  assert.equal(consumer.idle, true)
  stop.abort()
  await running
  freeSlots = 0
  assert.deepEqual(transport.asked, [2, 2, 2])
})

test('the consumer receives nothing without a free slot, until one is freed', async () => {
  const stop = new AbortController()
  const transport = scripted([[delivery('a')]])
  let freeSlots = 0
  const { consumer, taken } = consumerOf(transport, () => freeSlots)
  const running = consumer.run(stop.signal)
  await turns()
  assert.deepEqual(transport.asked, [])
  freeSlots = 1
  consumer.freed?.()
  await turns()
  assert.deepEqual(taken, ['a'])
  stop.abort()
  await running
})

test('the consumer asks for nothing when a freed slot is taken again', async () => {
  const stop = new AbortController()
  const transport = scripted([[delivery('a')]])
  const counts = [0, 0, 0, 1, 0]
  const { consumer } = consumerOf(transport, () => counts.shift() ?? 0)
  const running = consumer.run(stop.signal)
  for (let n = 0; n < 4; n++) {
    consumer.freed?.()
    await turns()
  }
  assert.deepEqual(counts, [])
  assert.deepEqual(transport.asked, [])
  stop.abort()
  await running
})

test('the consumer retries a failing transport after growing pauses, and is not idle meanwhile', async () => {
  const stop = new AbortController()
  const transport = scripted([new Error('one'), new Error('two'), [delivery('a')], new Error('three')])
  const { consumer, pauses, reported } = consumerOf(transport, () => 10)
  const running = consumer.run(stop.signal)
  await turns()
  assert.deepEqual(pauses, [100, 200, 100])
  assert.deepEqual(reported, ['one', 'two', 'answered', 'three'])
  stop.abort()
  await running
})

test('the consumer reports a transport that answers again although it delivers nothing', async () => {
  const stop = new AbortController()
  const { consumer, reported } = consumerOf(scripted([new Error('unavailable')]), () => 10)
  const received = new Promise<void>((resolve) => {
    const look = setInterval(() => reported.includes('answered') && resolve(clearInterval(look)), 5)
  })
  const running = consumer.run(stop.signal)
  await received
  assert.deepEqual(reported, ['unavailable', 'answered'])
  stop.abort()
  await running
})
