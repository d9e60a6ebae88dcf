import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createCountedSlots, type QueueSlot } from './counted-slots.ts'

/** Slots over a store whose counts resolve when the test answers them, with what the store holds at that moment. */
function site() {
  let time = 0
  const stored = new Map<string, number>()
  const asked: PromiseWithResolvers<ReadonlyMap<string, number>>[] = []
  const places = createCountedSlots(
    () => {
      const answer = Promise.withResolvers<ReadonlyMap<string, number>>()
      asked.push(answer)
      return answer.promise
    },
    () => time,
  )
  const answer = (): void => asked.shift()?.resolve(new Map(stored))
  const pass = (ms: number): void => {
    time += ms
  }
  return { places, stored, asked, answer, pass }
}

async function turns(): Promise<void> {
  for (let n = 0; n < 10; n++) await Promise.resolve()
}

test('a slot counts before its call is stored, while it is stored, and until a count that began afterwards', async () => {
  const { places, stored, asked, answer, pass } = site()
  const bounds = [{ name: undefined, most: 2 }]
  const take = async (): Promise<QueueSlot | undefined> => {
    const taking = places.take('ada', bounds)
    await turns()
    if (asked.length > 0) answer()
    const taken = await taking
    return taken.kind === 'taken' ? taken.place : undefined
  }
  const first = await take()
  const second = await take()
  assert.equal(await take(), undefined)
  // The count begins before the first call is stored, and does not see it.
  pass(100)
  const reached = places.reached(bounds)
  await turns()
  stored.set('ada', 0)
  first?.keep()
  answer()
  assert.deepEqual(await reached, bounds[0])
  second?.leave()
  assert.equal(places.full(bounds), undefined)
  stored.set('ada', 1)
  pass(100)
  assert.ok(await take())
  assert.equal(await take(), undefined, 'the first is in the count, and the third is not stored yet')
})

test('a failed count loses no slot, and rejects a take that only the count could admit', async () => {
  const { places, asked, answer, pass } = site()
  const bounds = [{ name: 'ada', most: 1 }]
  const taking = places.take('ada', bounds)
  await turns()
  answer()
  const taken = await taking
  if (taken.kind === 'taken') taken.place.keep()
  pass(100)
  const again = places.take('ada', bounds)
  await turns()
  asked.shift()?.reject(new Error('unavailable'))
  await assert.rejects(again, /unavailable/)
  assert.deepEqual(places.full(bounds), bounds[0])
  assert.equal(places.full([{ name: 'bob', most: 1 }]), undefined)
})

test('in any order of events no more calls wait than the bound allows', async () => {
  const steps = fc.array(fc.constantFrom('take', 'keep', 'leave', 'gone', 'answer', 'pass'), {
    maxLength: 80,
    size: 'max',
  })
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 4 }), async (events, most) => {
      const { places, stored, asked, answer, pass } = site()
      const open: QueueSlot[] = []
      let inStore = 0
      const change = (by: number): void => {
        inStore += by
        stored.set('ada', inStore)
      }
      const take = async (): Promise<void> => {
        const taken = await places.take('ada', [{ name: 'ada', most }])
        if (taken.kind === 'taken') open.push(taken.place)
      }
      const pending: Promise<void>[] = []
      for (const event of events) {
        if (event === 'take') pending.push(take())
        if (event === 'leave') open.pop()?.leave()
        if (event === 'gone' && inStore > 0) change(-1)
        if (event === 'answer') answer()
        if (event === 'pass') pass(60)
        const kept = event === 'keep' ? open.pop() : undefined
        if (kept !== undefined) {
          change(1)
          kept.keep()
        }
        await turns()
        assert.ok(inStore + open.length <= most, `${inStore} and ${open.length} of ${most}`)
      }
      while (asked.length > 0) {
        answer()
        await turns()
      }
      await Promise.all(pending)
    }),
  )
})
