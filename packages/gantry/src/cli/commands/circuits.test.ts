import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startServiceRig } from '../service.fixture.ts'
import { stateText } from './circuits.ts'

const key = 'shop:find @ http:shop'

test('circuits ls shows for each circuit its state, its window, which tenants see it and when the next trial may begin', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  const { out } = await gantry(['circuits', 'ls'])
  assert.match(
    out,
    /^circuit +state +faults +seen by +next trial\nshop:find @ http:shop +open +5\/5 +shop +1970-01-01T/,
  )
  assert.equal((await json(['circuits', 'ls'])).values[0].items[0].key, key)
})

test('circuits show accepts the name of a circuit or of a tool that has one', async (t) => {
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

test('circuits reset closes a circuit and confirms it', async (t) => {
  const { gantry, json } = await startServiceRig(t)
  assert.equal((await gantry(['circuits', 'reset', 'shop:find'])).out, 'Closed shop:find @ http:shop.\n')
  assert.deepEqual((await json(['circuits', 'reset', key])).values, [{ key, reset: true }])
  assert.equal((await gantry(['circuits', 'reset', 'no:tool @ local'])).code, 2)
})

test('circuits ls shows a circuit that is open for some tenants only as open for them', () => {
  const own = { since: 0, openMs: 1, calls: 6, failures: 6 }
  const tenants = [
    { ...own, tenant: 'a', state: 'open', retryAt: 1 },
    { ...own, tenant: 'b', state: 'closed' },
  ] as const
  assert.equal(stateText({ state: 'closed', tenants }), 'open for 1 of 2 tenants')
  assert.equal(stateText({ state: 'open', tenants }), 'open')
  assert.equal(stateText({ state: 'closed', tenants: tenants.slice(1) }), 'closed')
})
