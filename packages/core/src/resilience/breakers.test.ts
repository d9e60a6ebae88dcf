import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBreakers } from './breaker.ts'

const limits = { minCalls: 2, now: () => 1_800_000_000_000, random: () => 0 }

function open(breakers: ReturnType<typeof createBreakers>, key: string): void {
  for (let call = 0; call < 2; call++) breakers.get(key).enter().fault()
}

test('each key has a breaker of its own, named after it', () => {
  const events: string[] = []
  const breakers = createBreakers({ ...limits, onEvent: ({ kind, name }) => events.push(`${name} ${kind}`) })
  open(breakers, 'a')
  assert.throws(() => breakers.get('a').enter(), /^ToolError: a failed too often/)
  breakers.get('b').enter().succeed()
  assert.deepEqual(
    breakers.list().map(({ key, state }) => `${key} ${state}`),
    ['a open', 'b closed'],
  )
  assert.deepEqual(events, ['a opened'])
})

test('the number of breakers is bounded, and closed breakers are evicted before open ones', () => {
  let time = 1_800_000_000_000
  const breakers = createBreakers({ ...limits, most: 3, openMs: 600_000, now: () => time })
  open(breakers, 'broken')
  time += 120_000
  for (const key of ['b', 'c', 'd', 'e']) breakers.get(key).enter().succeed()
  assert.deepEqual(
    breakers.list().map(({ key }) => key),
    ['broken', 'd', 'e'],
  )
  for (let key = 0; key < 10; key++) open(breakers, `bad ${key}`)
  assert.equal(breakers.list().length, 3)
})

test('the least recently used breaker is evicted first', () => {
  const breakers = createBreakers({ ...limits, most: 2 })
  for (const key of ['a', 'b', 'a', 'c']) breakers.get(key)
  assert.deepEqual(
    breakers.list().map(({ key }) => key),
    ['a', 'c'],
  )
})

test('closing an unknown key creates no breaker', () => {
  const breakers = createBreakers(limits)
  open(breakers, 'a')
  breakers.close('a')
  breakers.close('b')
  assert.deepEqual(
    breakers.list().map(({ key, state }) => `${key} ${state}`),
    ['a closed'],
  )
})

test('a snapshot restored in another process gives the same breakers, for any key', () => {
  const breakers = createBreakers(limits)
  for (const key of ['plain', '__proto__', '']) open(breakers, key)
  breakers.get('well').enter().succeed()
  const kept = JSON.parse(JSON.stringify(breakers.snapshot()))
  const others = createBreakers(limits)
  others.restore(kept)
  assert.deepEqual(others.list(), breakers.list())
})

test('restore refuses the whole snapshot when one row is invalid', () => {
  const breakers = createBreakers({ ...limits, most: 2 })
  open(breakers, 'a')
  const [row] = breakers.snapshot()
  for (const wrong of [null, {}, [null], [row, { key: 'b' }], [{ ...row, key: 1 }], [row, row, row]]) {
    const others = createBreakers({ ...limits, most: 2 })
    assert.throws(() => others.restore(wrong), { code: 'CONFIG_INVALID' }, JSON.stringify(wrong))
    assert.deepEqual(others.list(), [])
  }
})
