import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Identity } from '@gantry/contract'
import type { TenantsLimits } from '../config/tenant-limits.ts'
import { type Buckets, type Draw, drawsOf } from './buckets/bucket.ts'
import type { QueueSlot } from './counted-slots.ts'
import { createTenantGate } from './limits.ts'

/** A refill interval long enough that no token arrives during a test. */
const aDay = 86_400_000

function someone(tenant: string, principal = 'ada', given: Partial<Identity> = {}): Identity {
  return { tenant, principal, permissions: [], ...given }
}

/** A gate over buckets that do not refill, and over queues with the given numbers of calls by tenant and principal. */
function gateOf(tenants: TenantsLimits, queued: { [tenant: string]: { [principal: string]: number } } = {}) {
  const left = new Map<string, number>()
  const draw: Buckets['draw'] = async (draws: readonly Draw[]) =>
    draws.map(({ key, capacity, least, most, perMs }) => {
      const there = left.get(key) ?? capacity
      const tokens = there < least ? 0 : Math.min(most, Math.floor(there))
      left.set(key, there - tokens)
      return { tokens, waitMs: tokens > 0 ? 0 : (least - there) / perMs }
    })
  const give: Buckets['give'] = async (refunds) => void (await draw(drawsOf(refunds)))
  let current = tenants
  const counted: string[] = []
  const store = {
    async waiting(tenant: string) {
      counted.push(tenant)
      return new Map(Object.entries(queued[tenant] ?? {}))
    },
  }
  const change = (next: TenantsLimits): void => {
    current = next
  }
  const gate = createTenantGate({ tenants: () => current, buckets: { draw, give }, store, mostQueued: () => 1_000 })
  const passes = async (who: Identity, times: number): Promise<number> => {
    let passed = 0
    for (let n = 0; n < times; n++) {
      await gate.enter(who)?.then(
        () => (passed += 1),
        (error) => assert.equal(error.code, 'RATE_LIMITED'),
      )
    }
    return passed
  }
  return { gate, passes, counted, change, left }
}

const slowly = { perSecond: 10 / aDay, burst: 10 }

test('without limits the gate returns undefined and takes no token', async () => {
  for (const tenants of [{}, { acme: { tools: ['math:*'] } } as TenantsLimits]) {
    const { gate } = gateOf(tenants)
    assert.equal(gate.enter(someone('acme')), undefined)
    assert.equal(gate.shares(), undefined)
    assert.equal(gate.mostAtOnce(someone('acme')), Number.POSITIVE_INFINITY)
    assert.equal(gate.inside(someone('acme'), 5), undefined)
  }
})

test('a tenant’s rate is shared by all its principals, whatever their permissions and roles', async () => {
  const { gate, passes } = gateOf({ acme: { rate: slowly } })
  const many = Array.from({ length: 30 }, (_, n) => someone('acme', `p${n}`, { permissions: [`x${n}`], roles: ['r'] }))
  let passed = 0
  for (const who of many) passed += await passes(who, 1)
  assert.equal(passed, 10)
  assert.equal(gate.enter(someone('other')), undefined)
})

test('a principal over its own rate takes no token of its tenant', async () => {
  const { passes, left } = gateOf({ acme: { rate: slowly, principals: { eve: { rate: { ...slowly, burst: 2 } } } } })
  assert.equal(await passes(someone('acme', 'eve'), 9), 2)
  assert.equal(left.get('["rate","acme"]'), 8)
  assert.equal(await passes(someone('acme'), 20), 8)
})

test('the limits of * apply to each tenant separately, and the limits of a named tenant take precedence', async () => {
  const { passes } = gateOf({ '*': { rate: slowly }, big: { rate: { ...slowly, burst: 20 } }, other: { weight: 2 } })
  assert.equal(await passes(someone('a'), 30), 10)
  assert.equal(await passes(someone('b'), 30), 10)
  assert.equal(await passes(someone('other'), 30), 10)
  assert.equal(await passes(someone('big'), 30), 20)
  assert.equal(await passes(someone('__proto__'), 30), 10)
  assert.equal(await passes(someone('*'), 30), 10)
})

test('a principal has its own rate below its tenant’s, and a refused call takes no token of the tenant', async () => {
  const { passes } = gateOf({
    acme: { rate: slowly, principals: { '*': { rate: { ...slowly, burst: 4 } }, root: {} } },
  })
  assert.equal(await passes(someone('acme', 'eve'), 50), 4)
  assert.equal(await passes(someone('acme', 'ada'), 3), 3)
  assert.equal(await passes(someone('acme', 'bob'), 50), 3, 'the tokens left of the ten')
})

test('a tenant’s limits of principals are completed, key by key, from those of the tenant *', async () => {
  const { gate, passes } = gateOf({
    '*': {
      principals: { '*': { rate: { ...slowly, burst: 2 } }, eve: { rate: { ...slowly, burst: 3 }, concurrency: 9 } },
    },
    over: { principals: { '*': { concurrency: 4 }, eve: { concurrency: 5 }, root: { rate: slowly } } },
  })
  const passed = async (principal: string) => passes(someone('over', principal), 30)
  assert.deepEqual(
    [await passed('ada'), await passed('eve'), await passed('root'), await passed('__proto__')],
    [2, 3, 10, 2],
  )
  const most = (principal: string, tenant = 'over') => gate.mostAtOnce(someone(tenant, principal))
  assert.deepEqual([most('ada'), most('eve'), most('root'), most('eve', 'other')], [4, 5, 4, 9])
  assert.deepEqual(gate.shares(), {
    '*': { principals: { eve: 9 } },
    over: { principals: { '*': 4, eve: 5, root: 4 } },
  })
})

test('the same name in another tenant is another principal', async () => {
  const { passes } = gateOf({ '*': { principals: { '*': { rate: slowly } } } })
  assert.equal(await passes(someone('a', 'b c'), 20), 10)
  assert.equal(await passes(someone('a b', 'c'), 20), 10)
})

test('a refusal names the time to retry', async () => {
  const { gate, passes } = gateOf({ acme: { rate: { perSecond: 2, burst: 1 } } })
  await passes(someone('acme'), 1)
  await assert.rejects(Promise.resolve(gate.enter(someone('acme'))), (error: Error & { details?: unknown }) => {
    assert.match(error.message, /^The tenant acme made too many calls; try again in \d+ ms\.$/)
    assert.deepEqual(Object.keys(error.details as object), ['retryAfterMs', 'scope'])
    return true
  })
})

test('calls spend a budget, unused cost is given back, and the budget is never exceeded', async () => {
  const { gate } = gateOf({ acme: { cost: { budget: 100, everyMs: aDay } } })
  const who = someone('acme')
  const giveBack = await gate.spend(who, 60)
  await assert.rejects(gate.spend(who, 60), { code: 'RATE_LIMITED', message: /less than the 60 units/ })
  await gate.spend(who, 40)
  await assert.rejects(gate.spend(who, 1), { code: 'RATE_LIMITED' })
  giveBack()
  await gate.spend(who, 60)
  await assert.rejects(gate.spend(who, 101), { code: 'LIMIT_EXCEEDED', effect: 'none', message: /tenant acme is 100/ })
  await gate.spend(someone('other'), 1_000_000)
})

test('an inner call counts against the rate and spends its cost, and takes neither when the budget refuses it', async () => {
  const { gate, left } = gateOf({ acme: { rate: slowly, cost: { budget: 100, everyMs: aDay } } })
  const who = someone('acme')
  const giveBack = await gate.inside(who, 60)
  await assert.rejects(Promise.resolve(gate.inside(who, 60)), {
    code: 'RATE_LIMITED',
    message: /less than the 60 units/,
  })
  assert.equal(left.get('["cost","acme"]'), 40)
  giveBack?.()
  await gate.inside(who, 60)
  for (let n = 0; n < 8; n++) await gate.inside(who, 0)
  await assert.rejects(Promise.resolve(gate.inside(who, 0)), { code: 'RATE_LIMITED', message: /too many calls/ })
  assert.equal(left.get('["cost","acme"]'), 40)
  await assert.rejects(Promise.resolve(gate.inside(who, 101)), { code: 'RATE_LIMITED' })
})

test('the gate refuses a tenant or a principal at its limit of waiting calls, and no other', async () => {
  const limits = { acme: { queued: 10, principals: { eve: { queued: 3 } } } }
  const { passes } = gateOf(limits, { acme: { eve: 3, ada: 6 }, other: { ada: 100 } })
  assert.equal(await passes(someone('acme', 'eve'), 1), 0)
  assert.equal(await passes(someone('acme', 'ada'), 1), 1)
  const full = gateOf(limits, { acme: { ada: 10 } })
  assert.equal(await full.passes(someone('acme', 'bob'), 1), 0)
})

test('calls admitted between two counts are counted locally, and a slot that was left is free again', async () => {
  const { gate, passes, counted } = gateOf({ acme: { queued: 5 } }, { acme: { ada: 2 } })
  const who = someone('acme')
  const places: (QueueSlot | undefined)[] = []
  for (let n = 0; n < 3; n++) {
    assert.equal(await passes(who, 1), 1)
    places.push(await gate.place(who))
  }
  assert.equal(await passes(who, 1), 0)
  await assert.rejects(Promise.resolve(gate.place(who)), { code: 'RATE_LIMITED', message: /acme has 5 calls waiting/ })
  places[0]?.keep()
  assert.equal(await passes(who, 1), 0)
  places[1]?.leave()
  assert.equal(await passes(who, 1), 1)
  assert.ok(counted.length <= 2, `${counted.length} counts`)
})

test('concurrent calls get no more queue slots than the limits of the principal and the tenant', async () => {
  const { gate } = gateOf({ acme: { queued: 7, principals: { '*': { queued: 4 } } } }, { acme: { eve: 1 } })
  const rush = async (principal: string): Promise<number> => {
    const asked = Array.from({ length: 20 }, () => gate.place(someone('acme', principal)))
    return (await Promise.allSettled(asked)).filter(({ status }) => status === 'fulfilled').length
  }
  assert.deepEqual([await rush('eve'), await rush('ada'), await rush('bob')], [3, 3, 0])
  assert.equal(gate.place(someone('other')), undefined)
  assert.deepEqual([gate.counts(someone('acme')), gate.counts(someone('other'))], [true, false])
})

test('changed limits apply from the next call on', async () => {
  const { gate, passes, change } = gateOf({ acme: { rate: slowly } })
  assert.equal(await passes(someone('acme'), 20), 10)
  change({ acme: { concurrency: 3, principals: { '*': { concurrency: 1 } } } })
  assert.equal(await passes(someone('acme'), 20), 20)
  assert.equal(gate.mostAtOnce(someone('acme')), 1)
  assert.deepEqual(gate.shares(), { acme: { concurrency: 3, principals: { '*': 1 } } })
  change({ '*': { concurrency: 2 }, acme: { weight: 3, principals: { '*': { concurrency: 4 }, eve: { queued: 1 } } } })
  assert.deepEqual(gate.shares(), {
    '*': { concurrency: 2 },
    acme: { weight: 3, concurrency: 2, principals: { '*': 4, eve: 4 } },
  })
})
