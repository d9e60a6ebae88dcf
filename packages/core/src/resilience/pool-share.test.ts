import assert from 'node:assert/strict'
import { test } from 'node:test'
import { admitToPool, type PoolEntry } from './slots.ts'

const limits = { total: 6, perTenant: 5, perPrincipal: 3 }
const entry = (name: string, usedAt: number, idle = true): PoolEntry => {
  const [tenant = '', principal = ''] = name.split('/')
  return { tenant, principal, usedAt, idle }
}
const ada = { tenant: 'acme', principal: 'ada' }
const eve = { tenant: 'other', principal: 'eve' }

test('a principal at its limit replaces its own idle entry, or is refused', () => {
  const held = [entry('acme/ada', 2), entry('acme/ada', 1), entry('acme/ada', 0, false)]
  assert.deepEqual(admitToPool(held, ada, limits), { kind: 'replace', victim: held[1] })
  const full = { kind: 'full', scope: 'principal', most: 3 }
  assert.deepEqual(admitToPool(held, ada, limits, { replaceOwn: false }), full)
  assert.deepEqual(admitToPool(held, eve, limits), { kind: 'free' })
})

test('at the tenant limit, the principal with the most entries loses one to another principal of the tenant', () => {
  const held = [1, 2, 3].map((at) => entry('acme/ada', at)).concat([4, 5].map((at) => entry('acme/bob', at)))
  const carl = { tenant: 'acme', principal: 'carl' }
  assert.deepEqual(admitToPool(held, carl, limits, { replaceOwn: false }), { kind: 'replace', victim: held[0] })
  const busy = held.map((one) => ({ ...one, idle: false }))
  assert.deepEqual(admitToPool(busy, carl, limits), { kind: 'full', scope: 'tenant', most: 5 })
})

test('in a full pool, the tenant with the most entries loses its least recently used idle entry', () => {
  const held = [5, 3, 4].map((at) => entry('acme/ada', at)).concat([2, 1].map((at) => entry('third/cem', at)))
  const all = [...held, entry('other/eve', 0)]
  assert.deepEqual(admitToPool(all, eve, limits, { replaceOwn: false }), { kind: 'replace', victim: held[1] })
  const busy = all.map((one) => (one.tenant === 'acme' ? { ...one, idle: false } : one))
  assert.deepEqual(admitToPool(busy, eve, limits), { kind: 'replace', victim: all[4] }, 'else the next that has more')
  assert.deepEqual(admitToPool(all, ada, { ...limits, perPrincipal: 9 }), { kind: 'replace', victim: held[1] })
  const crowd = { kind: 'full', scope: 'pool', most: 6 }
  assert.deepEqual(admitToPool(all, ada, { ...limits, perPrincipal: 9 }, { replaceOwn: false }), crowd)
})
