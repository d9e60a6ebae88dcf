import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { type BulkheadOptions, createBulkhead, type Release } from './bulkhead.ts'

function isBusy(error: unknown): boolean {
  return ToolError.is(error) && error.code === 'RATE_LIMITED' && error.effect === 'none'
}

test('any sequence of entries, releases and aborts stays within the concurrency limit and leaks no slot', async () => {
  const step = fc.oneof(
    fc.record({ kind: fc.constant('enter' as const), aborted: fc.constantFrom(false, false, true) }),
    fc.record({ kind: fc.constantFrom('release' as const, 'abort' as const), which: fc.nat(9) }),
  )
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { maxLength: 60, size: 'max' }),
      fc.integer({ min: 1, max: 3 }),
      async (steps, concurrency) => {
        const bulkhead = createBulkhead({ concurrency, queue: 3 })
        const held: Release[] = []
        const waiting: { controller: AbortController; done: Promise<void> }[] = []
        for (const each of steps) {
          if (each.kind === 'enter') {
            const controller = new AbortController()
            const full = bulkhead.running === concurrency && bulkhead.waiting === 3
            if (each.aborted) {
              controller.abort(new Error('gone'))
              assert.throws(() => bulkhead.enter(controller.signal), /gone/)
            } else if (full) assert.throws(() => bulkhead.enter(controller.signal), isBusy)
            else {
              const entered = bulkhead.enter(controller.signal)
              if (typeof entered === 'function') held.push(entered)
              else {
                const keep = (release: Release): void => void held.push(release)
                waiting.push({ controller, done: entered.then(keep, () => undefined) })
              }
            }
          } else if (each.kind === 'release') {
            const [release] = held.splice(each.which % Math.max(1, held.length), 1)
            release?.()
            release?.()
          } else waiting[each.which % Math.max(1, waiting.length)]?.controller.abort(new Error('gone'))
          await Promise.resolve()
          await Promise.resolve()
          assert.ok(bulkhead.running <= concurrency && bulkhead.waiting <= 3)
          assert.equal(bulkhead.running, held.length)
          assert.ok(bulkhead.waiting === 0 || bulkhead.running === concurrency, 'a call waits while a slot is free')
        }
        for (const { controller } of waiting) controller.abort()
        await Promise.all(waiting.map(({ done }) => done))
        for (const release of held) release()
        assert.deepEqual([bulkhead.running, bulkhead.waiting], [0, 0])
      },
    ),
  )
})

test('waiting calls enter in order of arrival', async () => {
  const bulkhead = createBulkhead({ concurrency: 2, queue: 10 })
  const order: number[] = []
  await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      bulkhead.run(async () => {
        order.push(index)
        await Promise.resolve()
      }),
    ),
  )
  assert.deepEqual(order, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
})

test('a synchronous function stays synchronous, and its slot is released, also when it throws', () => {
  const bulkhead = createBulkhead({ concurrency: 1 })
  const half = bulkhead.wrap((value: number) => {
    if (value % 2 === 1) throw new Error('odd')
    return value / 2
  })
  assert.throws(() => half(1), /odd/)
  assert.equal(half(4), 2)
  assert.equal(bulkhead.running, 0)
})

test('a rejected call passes its slot to the next waiting call', async () => {
  const bulkhead = createBulkhead({ concurrency: 1, queue: 1 })
  const first = bulkhead.run(() => Promise.reject(new Error('broken')))
  const second = bulkhead.run(() => 'well')
  await assert.rejects(async () => first, /broken/)
  assert.equal(await second, 'well')
  assert.equal(bulkhead.running, 0)
})

test('a call that waits longer than queueMs fails with RATE_LIMITED and is never started', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const bulkhead = createBulkhead({ concurrency: 1, queue: 5, queueMs: 50, name: 'weather' })
  const release = bulkhead.enter() as Release
  const late = assert.rejects(async () => bulkhead.run(() => assert.fail('it began')), isBusy)
  t.mock.timers.tick(50)
  await late
  assert.equal(bulkhead.waiting, 0)
  release()
  assert.equal(bulkhead.running, 0)
})

test('a call aborted right after its slot is granted is never started', async () => {
  const bulkhead = createBulkhead({ concurrency: 1, queue: 1 })
  const release = bulkhead.enter() as Release
  const controller = new AbortController()
  const work = bulkhead.run(() => assert.fail('it began'), controller.signal)
  release()
  controller.abort(new Error('gone'))
  await assert.rejects(async () => work, /gone/)
  assert.equal(bulkhead.running, 0)
})

test('invalid options are refused', () => {
  for (const options of [{}, { concurrency: 0 }, { concurrency: 1, queue: -1 }, { concurrency: 1, queueMS: 1 }]) {
    assert.throws(() => createBulkhead(options as BulkheadOptions), { code: 'CONFIG_INVALID' })
  }
})

test('waiting tenants are served round-robin, so a long queue of one does not delay the first call of another', async () => {
  const bulkhead = createBulkhead({ concurrency: 1, queue: 10 })
  const first = bulkhead.enter()
  const order: string[] = []
  const wait = (tenant: string, name: string) =>
    Promise.resolve(bulkhead.enter(undefined, tenant)).then((release) => {
      order.push(name)
      release()
    })
  const all = [wait('a', 'a1'), wait('a', 'a2'), wait('a', 'a3'), wait('b', 'b1')]
  if (typeof first === 'function') first()
  await Promise.all(all)
  assert.deepEqual(order, ['a1', 'b1', 'a2', 'a3'])
  assert.deepEqual([bulkhead.running, bulkhead.waiting], [0, 0])
})

test('a full queue evicts a call for a tenant that has none queued, and refuses a tenant that has', async () => {
  const bulkhead = createBulkhead({ concurrency: 1, queue: 2 })
  const first = bulkhead.enter()
  const [kept, refused] = [bulkhead.enter(undefined, 'a'), bulkhead.enter(undefined, 'a')]
  assert.throws(() => bulkhead.enter(undefined, 'a'), { code: 'RATE_LIMITED' })
  const other = bulkhead.enter(undefined, 'b')
  await assert.rejects(Promise.resolve(refused), { code: 'RATE_LIMITED' })
  assert.throws(() => bulkhead.enter(undefined, 'c'), { code: 'RATE_LIMITED' })
  if (typeof first === 'function') first()
  const release = await kept
  release()
  const last = await other
  last()
  assert.deepEqual([bulkhead.running, bulkhead.waiting], [0, 0])
})

test('a tenant holds at most its share, and a call of another tenant enters at once', async () => {
  const bulkhead = createBulkhead({ concurrency: 4, queue: 1 })
  const held = Array.from({ length: 3 }, () => bulkhead.enter(undefined, 'acme'))
  assert.ok(held.every((release) => typeof release === 'function'))
  const waiting = bulkhead.enter(undefined, 'acme')
  assert.ok(waiting instanceof Promise, 'the fourth slot is kept for others')
  assert.throws(() => bulkhead.enter(undefined, 'acme'), { code: 'RATE_LIMITED', message: /kept for other tenants/ })
  const other = bulkhead.enter(undefined, 'beta')
  assert.ok(typeof other === 'function')
  other()
  assert.equal(bulkhead.waiting, 1, 'a slot beyond its share is not given to a waiting call')
  const [first] = held
  if (typeof first === 'function') first()
  await waiting
  assert.deepEqual([bulkhead.running, bulkhead.waiting], [3, 0])
})
