import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlotScheduler, divideSlots, type Task } from './slot-scheduler.ts'
import { someClaim } from './worker.fixture.ts'

function gated(
  slots: number,
  weightOf: (tenant: string) => number = () => 1,
  shares: { readonly share?: number; readonly kept?: number } = {},
) {
  const running = new Map<string, PromiseWithResolvers<void>>()
  const left: string[] = []
  const scheduler = createSlotScheduler({
    slots,
    ...shares,
    weightOf,
    suspect: ({ lost }) => lost > 0,
    work: ({ claim }: Task) => {
      const gate = Promise.withResolvers<void>()
      running.set(claim.callId, gate)
      return gate.promise.finally(() => running.delete(claim.callId))
    },
    left: ({ claim }) => void left.push(claim.callId),
  })
  const end = async (callId: string): Promise<void> => {
    running.get(callId)?.resolve()
    await new Promise((resolve) => setImmediate(resolve))
  }
  return { scheduler, left, end, running: () => [...running.keys()].sort() }
}

test('as many calls run as there are slots, and the next begins when one ends', async () => {
  const { scheduler, end, running, left } = gated(2)
  scheduler.add(
    ['a', 'b', 'c'].map((callId) => someClaim({ callId })),
    false,
  )
  assert.deepEqual(running(), ['a', 'b'])
  await end('a')
  assert.deepEqual(running(), ['b', 'c'])
  assert.deepEqual(left, ['a'])
  await end('b')
  await end('c')
  await scheduler.empty()
  assert.equal(scheduler.size, 0)
})

test('suspects run one at a time, and do not block other calls', async () => {
  const { scheduler, end, running } = gated(3)
  const suspects = ['s1', 's2', 's3'].map((callId) => someClaim({ callId, lost: 1 }))
  scheduler.add([...suspects, someClaim({ callId: 'a' }), someClaim({ callId: 'b' })], false)
  assert.deepEqual(running(), ['a', 'b', 's1'])
  await end('a')
  assert.deepEqual(running(), ['b', 's1'])
  await end('s1')
  assert.deepEqual(running(), ['b', 's2'])
})

test('a lost call that waits is dropped, one that runs is aborted, and an unknown one is ignored', async () => {
  const { scheduler, end, running } = gated(1)
  scheduler.add([someClaim({ callId: 'a' }), someClaim({ callId: 'b' })], false)
  assert.equal(scheduler.stop('b', 'lost'), true)
  assert.equal(scheduler.size, 1)
  assert.equal(scheduler.stop('a', 'lost'), true)
  assert.equal(scheduler.tasks()[0]?.controller.signal.aborted, true)
  assert.equal(scheduler.tasks()[0]?.stopped, 'lost')
  assert.equal(scheduler.stop('z', 'cancelled'), false)
  assert.deepEqual(running(), ['a'])
  await end('a')
})

test('the first reason to stop is kept', () => {
  const { scheduler } = gated(1)
  scheduler.add([someClaim({ callId: 'a' })], false)
  scheduler.stop('a', 'cancelled')
  scheduler.stop('a', 'stopping')
  assert.equal(scheduler.tasks()[0]?.stopped, 'cancelled')
})

test('takeWaiting removes the calls that wait', () => {
  const { scheduler, left } = gated(1)
  scheduler.add([someClaim({ callId: 'a' }), someClaim({ callId: 'b' }), someClaim({ callId: 'c', lost: 1 })], false)
  const taken = scheduler.takeWaiting().map(({ callId }) => callId)
  assert.equal(taken.length, 2)
  assert.deepEqual(left.sort(), taken.toSorted())
  assert.equal(scheduler.size, 1)
})

test('a call that is added again voids the older task, and the newer one counts', async () => {
  const counted: boolean[] = []
  const gates: PromiseWithResolvers<void>[] = []
  const scheduler = createSlotScheduler({
    slots: 2,
    suspect: () => false,
    work: () => {
      const gate = Promise.withResolvers<void>()
      gates.push(gate)
      return gate.promise
    },
    left: (_task, counts) => void counted.push(counts),
  })
  scheduler.add([someClaim({ callId: 'a', fence: 1 })], false)
  scheduler.add([someClaim({ callId: 'a', fence: 2 })], false)
  const [older, newer] = scheduler.tasks()
  assert.deepEqual([older?.stopped, newer?.stopped], ['lost', undefined])
  scheduler.stop('a', 'cancelled')
  assert.deepEqual([older?.stopped, newer?.stopped], ['lost', 'cancelled'])
  for (const gate of gates) gate.resolve()
  await scheduler.empty()
  assert.deepEqual(counted, [false, true])
})

function callsOf(tenant: string, count: number) {
  const identity = { principal: 'ada', tenant, permissions: [] }
  return Array.from({ length: count }, (_, n) => someClaim({ callId: `${tenant}${n}` }, { identity }))
}

test('the next call is of the tenant with the fewest slots, however many calls another has waiting', async () => {
  const { scheduler, end, running } = gated(3)
  scheduler.add(callsOf('a', 50), false)
  scheduler.add([...callsOf('b', 3), ...callsOf('c', 1)], false)
  assert.deepEqual(running(), ['a0', 'a1', 'a2'])
  await end('a0')
  await end('a1')
  assert.deepEqual(running(), ['a2', 'b0', 'c0'])
  await end('c0')
  assert.deepEqual(running(), ['a2', 'a3', 'b0'])
  await end('a2')
  assert.deepEqual(running(), ['a3', 'b0', 'b1'])
  await end('b1')
  assert.deepEqual(running(), ['a3', 'a4', 'b0'])
  await end('a3')
  assert.deepEqual(running(), ['a4', 'b0', 'b2'])
  assert.deepEqual([...scheduler.open()].sort(), [
    ['a', 46],
    ['b', 2],
  ])
})

test('twice the weight gives twice the slots', async () => {
  const { scheduler, end, running } = gated(6, (tenant) => (tenant === 'b' ? 2 : 1))
  scheduler.add(callsOf('a', 50), false)
  scheduler.add(callsOf('b', 50), false)
  for (let n = 0; n < 6; n++) await end(`a${n}`)
  const tenants = running().map((callId) => callId[0])
  assert.deepEqual(tenants, ['a', 'a', 'b', 'b', 'b', 'b'])
})

test('reserved slots go to tenants that have none', async () => {
  const { scheduler, end, running } = gated(4, undefined, { kept: 2 })
  scheduler.add(callsOf('a', 9), false)
  assert.deepEqual(running(), ['a0', 'a1'])
  assert.deepEqual([scheduler.hasSlot('a'), scheduler.hasSlot('b')], [false, true])
  scheduler.add([...callsOf('b', 2), ...callsOf('c', 1), ...callsOf('d', 1)], false)
  assert.deepEqual(running(), ['a0', 'a1', 'b0', 'c0'])
  assert.deepEqual([scheduler.hasSlot('b'), scheduler.hasSlot('e')], [false, false])
  await end('c0')
  assert.deepEqual(running(), ['a0', 'a1', 'b0', 'd0'])
  await end('d0')
  assert.deepEqual(running(), ['a0', 'a1', 'b0'])
  await end('a0')
  assert.deepEqual(running(), ['a1', 'b0'])
  await end('a1')
  assert.deepEqual(running(), ['a2', 'b0'])
})

test('a tenant has its share of the slots from its first call on, and other tenants run several calls at the same time', async () => {
  const { scheduler, end, running } = gated(8, undefined, divideSlots(8))
  scheduler.add(callsOf('a', 20), false)
  assert.deepEqual(running(), ['a0', 'a1', 'a2', 'a3', 'a4', 'a5'], 'three quarters')
  assert.deepEqual([scheduler.hasSlot('a'), scheduler.hasSlot('b')], [false, true])
  assert.deepEqual([...scheduler.filled()], [['a', 20]])
  scheduler.add(callsOf('b', 1), false)
  assert.deepEqual([...scheduler.filled()], [['a', 20]], 'b could run one more')
  scheduler.add(callsOf('c', 3), false)
  assert.deepEqual(running().slice(6), ['b0', 'c0'])
  assert.deepEqual(
    [...scheduler.filled()],
    [
      ['a', 20],
      ['b', 1],
      ['c', 3],
    ],
  )
  await end('b0')
  assert.deepEqual(running().slice(6), ['c0', 'c1'], 'a has its share')
  assert.equal(scheduler.mostOpen, 20)
})

test('suspects of a tenant take no slot beyond its share', async () => {
  const { scheduler, end, running } = gated(2, undefined, divideSlots(2))
  scheduler.add(callsOf('a', 1), false)
  const [suspect] = callsOf('a', 2).slice(1)
  assert.ok(suspect)
  scheduler.add([{ ...suspect, lost: 1 }], false)
  assert.deepEqual(running(), ['a0'])
  assert.equal(scheduler.mostOpen, 2)
  scheduler.add(
    callsOf('b', 1).map((claim) => ({ ...claim, lost: 1 })),
    false,
  )
  assert.deepEqual(running(), ['a0', 'b0'], 'the suspect of another tenant does not wait behind it')
  await end('b0')
  await end('a0')
  assert.deepEqual(running(), ['a1'])
})

test('with two slots or more, the division leaves at least one to other tenants', () => {
  const divided = [1, 2, 3, 4, 7, 8, 12, 16, 64, 88].map((slots) => [slots, ...Object.values(divideSlots(slots))])
  assert.deepEqual(divided, [
    [1, 1, 0],
    [2, 1, 0],
    [3, 2, 0],
    [4, 3, 0],
    [7, 5, 0],
    [8, 6, 0],
    [12, 9, 1],
    [16, 12, 2],
    [64, 48, 8],
    [88, 66, 11],
  ])
  for (let slots = 2; slots <= 1_000; slots++) {
    const { share, kept } = divideSlots(slots)
    assert.ok(share >= 1 && share + kept < slots, `of ${slots}`)
    assert.ok(slots < 5 || slots - share - kept >= 2, `a second tenant has two of ${slots}`)
  }
})

test('a tenant without waiting or running calls is forgotten', async () => {
  const { scheduler, end } = gated(1)
  scheduler.add([...callsOf('a', 1), ...callsOf('b', 2)], false)
  assert.equal(scheduler.tenants, 2)
  await end('a0')
  assert.equal(scheduler.stop('b1', 'lost'), true)
  await end('b0')
  assert.equal(scheduler.tenants, 0)
  assert.deepEqual([...scheduler.open()], [])
})
