import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ToolError } from '@gantry/contract'
import { createConsumer } from './consumer.ts'
import type { Delivery, Transport } from './transports/transport.ts'

function delivery(id: string): Delivery {
  return { id, body: { kind: 'gone', source: 'test', position: id }, deliveries: 1 }
}

/** A transport that answers as told, then waits for the end. */
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

function consumerOf(transport: Transport, room: () => number) {
  const taken: string[] = []
  const pauses: number[] = []
  const told: string[] = []
  const consumer = createConsumer({
    transport,
    room,
    take: (deliveries) => void taken.push(...deliveries.map(({ id }) => id)),
    failed: (error: ToolError) => void told.push(error.message),
    answered: () => void told.push('answered'),
    random: () => 1,
    pause: async (ms) => void pauses.push(ms),
  })
  return { consumer, taken, pauses, told }
}

const turns = async (): Promise<void> => {
  for (let n = 0; n < 20; n++) await new Promise((resolve) => setImmediate(resolve))
}

test('deliveries are taken as long as there is room', async () => {
  const stop = new AbortController()
  const transport = scripted([[delivery('a'), delivery('b')], [delivery('c')]])
  let room = 2
  const { consumer, taken } = consumerOf(transport, () => room)
  const running = consumer.run(stop.signal)
  await turns()
  assert.deepEqual(taken, ['a', 'b', 'c'])
  assert.equal(consumer.idle, true)
  stop.abort()
  await running
  room = 0
  assert.deepEqual(transport.asked, [2, 2, 2])
})

test('nothing is received without room, until some is freed', async () => {
  const stop = new AbortController()
  const transport = scripted([[delivery('a')]])
  let room = 0
  const { consumer, taken } = consumerOf(transport, () => room)
  const running = consumer.run(stop.signal)
  await turns()
  assert.deepEqual(transport.asked, [])
  room = 1
  consumer.freed()
  await turns()
  assert.deepEqual(taken, ['a'])
  stop.abort()
  await running
})

test('nothing is asked for when what was freed is no room, or is gone again', async () => {
  const stop = new AbortController()
  const transport = scripted([[delivery('a')]])
  const rooms = [0, 0, 0, 1, 0]
  const { consumer } = consumerOf(transport, () => rooms.shift() ?? 0)
  const running = consumer.run(stop.signal)
  for (let n = 0; n < 4; n++) {
    consumer.freed()
    await turns()
  }
  assert.deepEqual(rooms, [])
  assert.deepEqual(transport.asked, [])
  stop.abort()
  await running
})

test('a transport that fails is asked again after growing pauses, and is not idle meanwhile', async () => {
  const stop = new AbortController()
  const transport = scripted([new Error('one'), new Error('two'), [delivery('a')], new Error('three')])
  const { consumer, pauses, told } = consumerOf(transport, () => 10)
  const running = consumer.run(stop.signal)
  await turns()
  assert.deepEqual(pauses, [100, 200, 100])
  assert.deepEqual(told, ['one', 'two', 'answered', 'three'])
  stop.abort()
  await running
})

test('a transport that answers again is known as such although it has nothing to deliver', async () => {
  const stop = new AbortController()
  const { consumer, told } = consumerOf(scripted([new Error('away')]), () => 10)
  const heard = new Promise<void>((resolve) => {
    const look = setInterval(() => told.includes('answered') && resolve(clearInterval(look)), 5)
  })
  const running = consumer.run(stop.signal)
  await heard
  assert.deepEqual(told, ['away', 'answered'])
  stop.abort()
  await running
})
