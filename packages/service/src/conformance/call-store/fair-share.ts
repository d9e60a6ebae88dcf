import assert from 'node:assert/strict'
import { setTimeout as turn } from 'node:timers/promises'
import type { AdmittedCall, CallStore, Claim } from '../../storage/calls/call-store.ts'
import { type Cases, claimOne, idsOf, loseOne, manyCalls, mine, someCall, someEnding, theirs } from './samples.ts'

const one = { key: 's', limit: 1 }
const two = { key: 's', limit: 2 }

export const slots: Cases = {
  async 'all workers together claim as many calls of a slot key as it has slots, oldest first'({ store, other }) {
    await store.submit(manyCalls(5, { slot: two }))
    const [first, ...none] = await store.claim(1, mine)
    assert.ok(first !== undefined && none.length === 0)
    const [second, ...more] = await other.claim(10, theirs)
    assert.ok(second !== undefined && more.length === 0)
    assert.deepEqual([first.callId, second.callId], ['c0000', 'c0001'])
    assert.deepEqual(await store.claim(10, mine), [])
    await other.finish([someEnding(second)])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c0002'])
    await store.finish([someEnding(first)])
    assert.deepEqual(idsOf(await other.claim(10, theirs)), ['c0003'])
  },

  async 'calls of other slot keys and calls without one are not delayed'({ store }) {
    const other = { key: 'other', limit: 1 }
    await store.submit([someCall('s1', { slot: one }), someCall('s2', { slot: one }), someCall('free')])
    await store.submit([someCall('o1', { slot: other, priority: 1 }), someCall('o2', { slot: other, priority: 2 })])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['o1', 's1', 'free'])
  },

  async 'calls of a slot key are claimed in the order of arrival, whatever their priority'({ store }) {
    await store.submit([someCall('a', { slot: one }), someCall('b', { slot: one, priority: 9 }), someCall('x')])
    const claims = await store.claim(10, mine)
    assert.deepEqual(idsOf(claims), ['a', 'x'])
  },

  async 'tenants take turns at the slots of a key, each with its oldest call'({ store }) {
    const of = (tenant: string) => ({ identity: { tenant, principal: 'ada', permissions: [] }, slot: one })
    const calls = (tenant: string, ...ids: string[]) => ids.map((id) => someCall(id, of(tenant)))
    await store.submit(calls('acme', 'a1', 'a2', 'a3', 'a4'))
    const order: string[] = []
    const runOne = async (): Promise<void> => {
      const claim = await claimOne(store)
      order.push(claim.callId)
      await store.finish([someEnding(claim)])
    }
    await store.submit(calls('beta', 'b1', 'b2'))
    await store.submit(calls('corp', 'c1'))
    for (let n = 0; n < 7; n++) await runOne()
    assert.deepEqual(order, ['a1', 'a2', 'b1', 'c1', 'a3', 'b2', 'a4'])
  },

  async 'a free slot goes to the tenant that has the fewest of the key'({ store }) {
    const four = { key: 's', limit: 4 }
    const of = (tenant: string) => ({ identity: { tenant, principal: 'ada', permissions: [] }, slot: four })
    await store.submit(manyCalls(6, of('acme')))
    const [first] = await store.claim(10, mine)
    assert.ok(first !== undefined)
    await store.submit([someCall('b1', of('beta')), someCall('b2', of('beta'))])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['b1'])
    await store.finish([someEnding(first)])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['b2'])
  },

  async 'a tenant holds three quarters of four or more slots, and the rest stays free for others'({ store }) {
    const of = (tenant: string, limit: number) => ({
      identity: { tenant, principal: 'ada', permissions: [] },
      slot: { key: `s${limit}`, limit },
    })
    const calls = (tenant: string, limit: number) =>
      Array.from({ length: 12 }, (_, n) => someCall(`${tenant}${limit}-${n}`, of(tenant, limit)))
    for (const [limit, share] of [
      [3, 3],
      [4, 3],
      [8, 6],
      [10, 8],
    ] as const) {
      await store.submit(calls('acme', limit))
      const claims = await store.claim(20, mine)
      assert.equal(claims.length, share, `${limit} slots`)
      await store.submit(calls('beta', limit))
      assert.equal((await store.claim(20, mine)).length, limit - share, `another tenant, of ${limit} slots`)
      // The next slot of the first tenant is free once one of its calls has ended.
      await store.finish([someEnding(claims[0] as Claim)])
      assert.equal((await store.claim(20, mine)).length, 1)
    }
  },

  async 'the only tenant of an installation may use every slot of a key'({ store }) {
    const of = (tenant: string) => ({ identity: { tenant, principal: 'owner', permissions: [] } })
    await store.submit(manyCalls(12, { ...of('default'), slot: { key: 's', limit: 8 } }))
    assert.equal((await store.claim(20, mine)).length, 8)
  },

  async 'a call whose worker is lost keeps its slot'(fixture) {
    const { store } = fixture
    await store.submit(manyCalls(2, { slot: one }))
    await loseOne(fixture)
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c0000'])
    assert.deepEqual(await store.claim(10, theirs), [])
  },

  async 'a released call keeps its slot, and one released with a delay gives it to the next'({ store, pass }) {
    await store.submit(manyCalls(3, { slot: one }))
    await store.release([await claimOne(store)])
    const claim = await claimOne(store)
    assert.equal(claim.callId, 'c0000')
    await store.release([{ ...claim, delayMs: 60_000 }])
    const second = await claimOne(store, { ...mine, leaseMs: 600_000 })
    assert.equal(second.callId, 'c0001')
    await pass(61_000)
    assert.equal((await store.reclaim({ max: 10 })).promoted, 1)
    assert.deepEqual(await store.claim(10, mine), [])
    await store.finish([someEnding(second)])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c0000'])
  },

  async 'a delayed call takes a slot only when it is due'({ store, pass }) {
    await store.submit([someCall('late', { slot: one, delayMs: 30_000 }), someCall('now', { slot: one })])
    const now = await claimOne(store)
    assert.equal(now.callId, 'now')
    await store.finish([someEnding(now)])
    assert.deepEqual(await store.claim(10, mine), [])
    await pass(31_000)
    await store.reclaim({ max: 10 })
    assert.equal((await claimOne(store)).callId, 'late')
  },

  async 'a cancelled or expired call gives its slot to the next'({ store, pass }) {
    await store.submit([someCall('a', { slot: one }), someCall('b', { slot: one, deadlineMs: 5_000 })])
    await store.submit([someCall('c', { slot: one })])
    await store.cancel('a', 'acme')
    await pass(6_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, ['b'])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['c'])
  },

  async 'concurrent submits, claims and completions complete all calls within the slots'(fixture) {
    const { store, other, records } = fixture
    const keys = [one, two, { key: 't', limit: 3 }].map((slot, n) => ({ ...slot, key: `${slot.key}${n}` }))
    const calls = manyCalls(60).map((call, index) => ({ ...call, slot: keys[index % 3] as (typeof keys)[0] }))
    const running = new Map(keys.map(({ key }) => [key, 0]))
    const exceeded: string[] = []
    const change = ({ slot }: AdmittedCall, by: number): void => {
      const now = (running.get(slot?.key ?? '') ?? 0) + by
      running.set(slot?.key ?? '', now)
      if (now > (slot?.limit ?? 0)) exceeded.push(`${slot?.key}: ${now}`)
    }
    let left = calls.length
    const work = async (which: CallStore, options: typeof mine): Promise<void> => {
      while (left > 0) {
        const claims = await which.claim(3, options)
        for (const { call } of claims) change(call, 1)
        // Other workers claim meanwhile; a call is counted out the moment before its slot is given back.
        await turn()
        for (const { call } of claims) change(call, -1)
        const ended = await which.finish(claims.map((claim) => someEnding(claim)))
        left -= ended.length
      }
    }
    const submits = calls.map((call, index) => (index % 2 === 0 ? store : other).submit([call]))
    await Promise.all([...submits, work(store, mine), work(other, theirs), work(store, mine), work(other, theirs)])
    assert.deepEqual(exceeded, [])
    assert.equal((await records()).results.length, calls.length)
  },

  async 'slots are not exceeded while calls are released, completed and cancelled concurrently'(fixture) {
    const { store, other } = fixture
    const calls = manyCalls(40, { slot: two })
    await Promise.all(calls.map((call, index) => (index % 2 === 0 ? store : other).submit([call])))
    let done = 0
    for (let round = 0; done < calls.length && round < 200; round++) {
      const [here, there] = await Promise.all([store.claim(2, mine), other.claim(2, theirs)])
      const claims = [...here, ...there]
      assert.ok(claims.length <= 2, `${claims.length} calls of a key with two slots`)
      const [first, second] = claims
      const mixed = [
        first === undefined ? undefined : other.release([{ ...first, delayMs: round % 3 === 0 ? 1 : 0 }]),
        second === undefined ? undefined : store.finish([someEnding(second)]).then((ended) => (done += ended.length)),
        round % 5 === 0
          ? store.cancel(`c00${round % 40}`, 'acme').then((fate) => (done += fate === 'ended' ? 1 : 0))
          : undefined,
        store.reclaim({ max: 10 }),
      ]
      await Promise.all(mixed)
      await fixture.pass(10)
      if (second !== undefined || first === undefined) continue
      const last = (await store.claim(2, mine)).map((claim) => someEnding(claim))
      done += (await store.finish(last)).length
    }
    assert.equal(done, calls.length)
  },
}

/** Calls of a tenant, with its name as a prefix of their ids. */
function callsOf(tenant: string, count: number, given: Partial<AdmittedCall> = {}): AdmittedCall[] {
  const identity = { principal: 'ada', tenant, permissions: [] }
  return manyCalls(count, { identity, ...given }).map((call) => ({ ...call, callId: `${tenant}-${call.callId}` }))
}

function by(principal: string): Partial<AdmittedCall> {
  return { identity: { principal, tenant: 'acme', permissions: [] } }
}

/** The number of claims per tenant. */
function counts(claims: readonly Claim[]): { [tenant: string]: number } {
  const tenants = claims.map(({ call }) => call.identity.tenant)
  return Object.fromEntries(
    Object.entries(Object.groupBy(tenants, (tenant) => tenant)).map(([t, all]) => [t, all?.length ?? 0]),
  )
}

export const rotation: Cases = {
  async 'a tenant with many waiting calls does not delay one with a few'({ store }) {
    await store.submit(callsOf('noisy', 500))
    await store.submit(callsOf('quiet', 3))
    assert.deepEqual(counts(await store.claim(6, mine)), { noisy: 3, quiet: 3 })
    await store.submit(callsOf('late', 1))
    assert.deepEqual(counts(await store.claim(2, mine)), { noisy: 1, late: 1 })
  },

  async 'the unused share of a tenant is divided equally among the others'({ store }) {
    await store.submit([...callsOf('a', 20), ...callsOf('b', 2), ...callsOf('c', 20), ...callsOf('d', 5)])
    assert.deepEqual(counts(await store.claim(25, mine)), { a: 9, b: 2, c: 9, d: 5 })
    assert.deepEqual(counts(await store.claim(100, mine)), { a: 11, c: 11 })
  },

  async 'the tenant with the fewest leased calls is next, and equal tenants alternate'({ store }) {
    await store.submit([...callsOf('b', 5), ...callsOf('a', 5), ...callsOf('c', 5)])
    assert.deepEqual(idsOf(await store.claim(1, mine)), ['a-c0000'])
    assert.deepEqual(idsOf(await store.claim(1, mine)), ['b-c0000'])
    assert.deepEqual(idsOf(await store.claim(1, { ...mine, busy: { b: 2, a: 1, c: 1 } })), ['c-c0000'])
    assert.deepEqual(idsOf(await store.claim(1, { ...mine, busy: { b: 1, a: 1, c: 1 } })), ['a-c0001'])
    assert.deepEqual(counts(await store.claim(4, { ...mine, busy: { b: 3, a: 1 } })), { a: 1, c: 3 })
  },

  async 'a claim of newcomers gets one call of each tenant of which the worker runs none'({ store }) {
    await store.submit(callsOf('a', 5))
    const asked = { ...mine, newcomers: true }
    assert.deepEqual(counts(await store.claim(4, { ...asked, busy: { a: 1 } })), {})
    assert.deepEqual(counts(await store.claim(4, asked)), { a: 1 })
    await store.submit([...callsOf('b', 5), ...callsOf('c', 5)])
    assert.deepEqual(counts(await store.claim(4, { ...asked, busy: { a: 1, b: 2, c: 1 } })), {})
    assert.deepEqual(counts(await store.claim(4, { ...asked, busy: { b: 2 } })), { a: 1, c: 1 })
    assert.deepEqual(counts(await store.claim(1, { ...asked, busy: { b: 2, c: 1 } })), { a: 1 })
    const shares = { '*': { concurrency: 2 }, b: { weight: 3 } }
    assert.deepEqual(counts(await store.claim(9, { ...asked, shares })), { b: 1, c: 1 })
  },

  async 'priority orders the calls of a tenant, and does not take from other tenants'({ store }) {
    await store.submit([...callsOf('a', 2), ...callsOf('b', 3, { priority: 9 }), someCall('c', { priority: 1 })])
    await store.submit(callsOf('a', 1, { priority: 5 }).map((call) => ({ ...call, callId: 'first of a' })))
    assert.deepEqual(idsOf(await store.claim(3, mine)), ['b-c0000', 'first of a', 'c'])
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['b-c0001', 'a-c0000'])
  },

  async 'a tenant with twice the weight gets twice the calls'({ store }) {
    const shares = { a: { weight: 2 }, '*': { weight: 0.5 } }
    await store.submit([...callsOf('a', 50), ...callsOf('b', 50), ...callsOf('c', 50)])
    assert.deepEqual(counts(await store.claim(12, { ...mine, shares })), { a: 8, b: 2, c: 2 })
    const busy = { a: 8, b: 2, c: 2 }
    assert.deepEqual(counts(await store.claim(6, { ...mine, shares, busy })), { a: 4, b: 1, c: 1 })
  },

  async 'a tenant whose calls need labels that the worker lacks leaves its share to others'({ store }) {
    await store.submit([...callsOf('a', 9, { placement: { zone: 'eu' } }), ...callsOf('b', 9)])
    assert.deepEqual(counts(await store.claim(6, mine)), { b: 6 })
    assert.deepEqual(counts(await store.claim(6, { ...mine, labels: { zone: 'eu' } })), { a: 3, b: 3 })
  },

  async 'calls of all of 250 tenants are claimed'({ store }) {
    const tenants = Array.from({ length: 250 }, (_, n) => `t${n}`)
    await store.submit(tenants.flatMap((tenant) => callsOf(tenant, 2)))
    const seen = new Set<string>()
    for (let round = 0; round < 50; round++) {
      for (const { call } of await store.claim(10, mine)) seen.add(call.identity.tenant)
    }
    assert.equal(seen.size, tenants.length)
    assert.deepEqual(await store.claim(10, mine), [])
  },

  async 'the concurrency limit of a tenant holds across workers, and other tenants are not delayed'({ store, other }) {
    const shares = { a: { concurrency: 3 } }
    await store.submit([...callsOf('a', 10), ...callsOf('b', 2)])
    const claims = await store.claim(4, { ...mine, shares })
    assert.deepEqual(counts(claims), { a: 2, b: 2 })
    assert.deepEqual(counts(await other.claim(10, { ...theirs, shares })), { a: 1 })
    assert.deepEqual(await store.claim(10, { ...mine, shares }), [])
    await store.finish(claims.map((claim) => someEnding(claim)))
    assert.deepEqual(counts(await other.claim(10, { ...theirs, shares })), { a: 2 })
    await store.submit(callsOf('z', 1))
    assert.deepEqual(counts(await store.claim(10, { ...mine, shares })), { z: 1 })
  },

  async 'the concurrency limit of * holds for each tenant that is not named'({ store }) {
    const shares = { '*': { concurrency: 1 }, b: { concurrency: 2 }, c: {} }
    await store.submit(['a', 'b', 'c', 'd'].flatMap((tenant) => callsOf(tenant, 4)))
    assert.deepEqual(counts(await store.claim(20, { ...mine, shares })), { a: 1, b: 2, c: 4, d: 1 })
  },

  async 'the concurrency limit of a principal does not delay other principals of its tenant'({ store, other }) {
    const shares = { acme: { concurrency: 4, principals: { eve: 1, '*': 2 } } }
    await store.submit([someCall('e1', by('eve')), someCall('e2', by('eve')), someCall('e3', by('eve'))])
    await store.submit([someCall('a1', by('ada')), someCall('a2', by('ada')), someCall('a3', by('ada'))])
    await store.submit([someCall('b1', by('bob')), someCall('b2', by('bob'))])
    const [first, ...more] = await store.claim(2, { ...mine, shares })
    assert.deepEqual(idsOf([first, ...more].flatMap((one) => one ?? [])), ['e1', 'a1'])
    assert.deepEqual(idsOf(await other.claim(10, { ...theirs, shares })), ['a2', 'b1'])
    assert.deepEqual(await store.claim(10, { ...mine, shares }), [])
    await store.finish(first === undefined ? [] : [someEnding(first)])
    assert.deepEqual(idsOf(await store.claim(10, { ...mine, shares })), ['e2'])
  },

  async 'a call whose worker was lost does not count for the concurrency limit'(fixture) {
    const { store } = fixture
    const limited = { ...mine, shares: { acme: { concurrency: 1 } } }
    await store.submit(manyCalls(2))
    await loseOne({ ...fixture, store: { ...store, claim: (max) => store.claim(max, limited) } })
    assert.deepEqual(idsOf(await store.claim(10, limited)), ['c0000'])
    assert.deepEqual(await store.claim(10, limited), [])
  },

  async 'concurrent claims complete all calls within the concurrency limits'(fixture) {
    const { store, other, records } = fixture
    const shares = { a: { concurrency: 3, principals: { '*': 2 } }, b: { concurrency: 1 } }
    const calls = [...callsOf('a', 30), ...callsOf('b', 15), ...callsOf('c', 15)].map((call, n) => ({
      ...call,
      identity: { ...call.identity, principal: `p${n % 3}` },
    }))
    const limits = new Map(Object.entries({ a: 3, b: 1, 'a p0': 2, 'a p1': 2, 'a p2': 2 }))
    const held = new Map<string, number>()
    const exceeded: string[] = []
    const change = ({ call: { identity } }: Claim, by: number): void => {
      for (const who of [identity.tenant, `${identity.tenant} ${identity.principal}`]) {
        const now = (held.get(who) ?? 0) + by
        held.set(who, now)
        if (now > (limits.get(who) ?? calls.length)) exceeded.push(`${who}: ${now}`)
      }
    }
    let left = calls.length
    const work = async (which: CallStore, options: typeof mine): Promise<void> => {
      while (left > 0) {
        const claims = await which.claim(3, { ...options, shares })
        for (const claim of claims) change(claim, 1)
        // Other workers claim meanwhile; a call is counted out the moment before its slot is given back.
        await turn()
        for (const claim of claims) change(claim, -1)
        const ended = await which.finish(claims.map((claim) => someEnding(claim)))
        left -= ended.length
      }
    }
    await store.submit(calls)
    await Promise.all([work(store, mine), work(other, theirs), work(store, mine), work(other, theirs)])
    assert.deepEqual(exceeded, [])
    assert.equal((await records()).results.length, calls.length)
  },

  async 'waiting() counts waiting calls per principal of a tenant, delayed and slot-waiting ones included'({ store }) {
    await store.submit([someCall('a', by('ada')), someCall('b', by('bob')), someCall('d', { delayMs: 60_000 })])
    await store.submit([...callsOf('other', 5), ...manyCalls(3, { slot: { key: 's', limit: 1 }, ...by('bob') })])
    assert.deepEqual([...(await store.waiting('acme', 100))].sort(), [
      ['ada', 2],
      ['bob', 4],
    ])
    await store.claim(2, mine)
    await store.claim(20, mine)
    assert.deepEqual([...(await store.waiting('acme', 100))].sort(), [
      ['ada', 1],
      ['bob', 2],
    ])
    assert.deepEqual([...(await store.waiting('missing', 100))], [])
  },
}
