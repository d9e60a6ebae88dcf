import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServiceRig } from '../service.fixture.ts'

const key = 'shop:find @ http:shop'

test('circuits ls tells of each circuit its state, its window, who sees it and when the next trial may begin', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  const { out } = await gantry(['circuits', 'ls'])
  assert.match(
    out,
    /^circuit +state +faults +seen by +next trial\nshop:find @ http:shop +open +5\/5 +shop +1970-01-01T/,
  )
  assert.equal((await json(['circuits', 'ls'])).values[0].items[0].key, key)
})

test('circuits show takes the name of a circuit, or of a tool that has one', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  for (const name of [key, 'shop:find']) {
    const { out } = await gantry(['circuits', 'show', name])
    assert.match(
      out,
      /^circuit: shop:find @ http:shop\nstate: open\nsince: 1970-.*\nfaults: 5 of 5 calls\nnext trial: 1970-/,
    )
    assert.match(out, /\ntenant +state .*\nshop +open +1970-/)
  }
  assert.equal((await json(['circuits', 'show', key])).values[0].tenants[0].tenant, 'shop')
  const missing = await json(['circuits', 'show', 'nothing'])
  assert.deepEqual([missing.code, missing.values[0].error.code], [2, 'NOT_FOUND'])
})

test('circuits reset closes a circuit, and says so', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  assert.equal((await gantry(['circuits', 'reset', 'shop:find'])).out, 'Closed shop:find @ http:shop.\n')
  assert.deepEqual((await json(['circuits', 'reset', key])).values, [{ key, reset: true }])
  assert.equal((await gantry(['circuits', 'reset', 'no:tool @ local'])).code, 2)
})
