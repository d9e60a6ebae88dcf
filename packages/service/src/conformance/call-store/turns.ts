import assert from 'node:assert/strict'
import type { AdmittedCall, CallStore, Claim } from '../../storage/calls/call-store.ts'
import { type Cases, idsOf, loseOne, manyCalls, mine, someCall, someEnding, theirs } from './samples.ts'

/** Calls of a tenant, named after it. */
function callsOf(tenant: string, count: number, given: Partial<AdmittedCall> = {}): AdmittedCall[] {
  const identity = { principal: 'ada', tenant, permissions: [] }
  return manyCalls(count, { identity, ...given }).map((call) => ({ ...call, callId: `${tenant}-${call.callId}` }))
}

function by(principal: string): Partial<AdmittedCall> {
  return { identity: { principal, tenant: 'acme', permissions: [] } }
}

/** How many of each tenant. */
function counts(claims: readonly Claim[]): { [tenant: string]: number } {
  const tenants = claims.map(({ call }) => call.identity.tenant)
  return Object.fromEntries(
    Object.entries(Object.groupBy(tenants, (tenant) => tenant)).map(([t, all]) => [t, all?.length ?? 0]),
  )
}

export const turns: Cases = {
  async 'whoever has many calls waiting does not push back the one who has a few'({ store }) {
    await store.submit(callsOf('noisy', 500))
    await store.submit(callsOf('quiet', 3))
    assert.deepEqual(counts(await store.claim(6, mine)), { noisy: 3, quiet: 3 })
    await store.submit(callsOf('late', 1))
    assert.deepEqual(counts(await store.claim(2, mine)), { noisy: 1, late: 1 })
  },

  async 'what one has not enough calls for goes to the others in equal parts'({ store }) {
    await store.submit([...callsOf('a', 20), ...callsOf('b', 2), ...callsOf('c', 20), ...callsOf('d', 5)])
    assert.deepEqual(counts(await store.claim(25, mine)), { a: 9, b: 2, c: 9, d: 5 })
    assert.deepEqual(counts(await store.claim(100, mine)), { a: 11, c: 11 })
  },

  async 'whoever has the least in hand is next, and equals follow each other in a circle'({ store }) {
    await store.submit([...callsOf('b', 5), ...callsOf('a', 5), ...callsOf('c', 5)])
    assert.deepEqual(idsOf(await store.claim(1, mine)), ['a-c0000'])
    assert.deepEqual(idsOf(await store.claim(1, mine)), ['b-c0000'])
    assert.deepEqual(idsOf(await store.claim(1, { ...mine, busy: { b: 2, a: 1, c: 1 } })), ['c-c0000'])
    assert.deepEqual(idsOf(await store.claim(1, { ...mine, busy: { b: 1, a: 1, c: 1 } })), ['a-c0001'])
    assert.deepEqual(counts(await store.claim(4, { ...mine, busy: { b: 3, a: 1 } })), { a: 1, c: 3 })
  },

  async 'who wants newcomers gets one call of each tenant of which he has none, and nothing of others'({ store }) {
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

  async 'within a tenant the highest priority is first, and it buys nothing from other tenants'({ store }) {
    await store.submit([...callsOf('a', 2), ...callsOf('b', 3, { priority: 9 }), someCall('c', { priority: 1 })])
    await store.submit(callsOf('a', 1, { priority: 5 }).map((call) => ({ ...call, callId: 'first of a' })))
    assert.deepEqual(idsOf(await store.claim(3, mine)), ['b-c0000', 'first of a', 'c'])
    assert.deepEqual(idsOf(await store.claim(2, mine)), ['b-c0001', 'a-c0000'])
  },

  async 'twice the weight is twice the calls in hand'({ store }) {
    const shares = { a: { weight: 2 }, '*': { weight: 0.5 } }
    await store.submit([...callsOf('a', 50), ...callsOf('b', 50), ...callsOf('c', 50)])
    assert.deepEqual(counts(await store.claim(12, { ...mine, shares })), { a: 8, b: 2, c: 2 })
    const busy = { a: 8, b: 2, c: 2 }
    assert.deepEqual(counts(await store.claim(6, { ...mine, shares, busy })), { a: 4, b: 1, c: 1 })
  },

  async 'a tenant whose calls only others may run leaves its turn to the next'({ store }) {
    await store.submit([...callsOf('a', 9, { placement: { zone: 'eu' } }), ...callsOf('b', 9)])
    assert.deepEqual(counts(await store.claim(6, mine)), { b: 6 })
    assert.deepEqual(counts(await store.claim(6, { ...mine, labels: { zone: 'eu' } })), { a: 3, b: 3 })
  },

  async 'however many tenants there are, all come to their turn'({ store }) {
    const tenants = Array.from({ length: 250 }, (_, n) => `t${n}`)
    await store.submit(tenants.flatMap((tenant) => callsOf(tenant, 2)))
    const seen = new Set<string>()
    for (let round = 0; round < 50; round++) {
      for (const { call } of await store.claim(10, mine)) seen.add(call.identity.tenant)
    }
    assert.equal(seen.size, tenants.length)
    assert.deepEqual(await store.claim(10, mine), [])
  },

  async 'of a tenant with a limit no more are held at a time, whoever claims, and others pass by'({ store, other }) {
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

  async 'a limit for every tenant is one for each, and a named tenant has its own'({ store }) {
    const shares = { '*': { concurrency: 1 }, b: { concurrency: 2 }, c: {} }
    await store.submit(['a', 'b', 'c', 'd'].flatMap((tenant) => callsOf(tenant, 4)))
    assert.deepEqual(counts(await store.claim(20, { ...mine, shares })), { a: 1, b: 2, c: 4, d: 1 })
  },

  async 'of a principal with a limit no more are held at a time, and others of its tenant pass by'({ store, other }) {
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

  async 'a call that its holder lost leaves its place to the next claim'(fixture) {
    const { store } = fixture
    const limited = { ...mine, shares: { acme: { concurrency: 1 } } }
    await store.submit(manyCalls(2))
    await loseOne({ ...fixture, store: { ...store, claim: (max) => store.claim(max, limited) } })
    assert.deepEqual(idsOf(await store.claim(10, limited)), ['c0000'])
    assert.deepEqual(await store.claim(10, limited), [])
  },

  async 'however many claim at once, a limit is never exceeded and all are done'(fixture) {
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
        // What runs is given back the moment before it may be somebody else's.
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

  async 'what waits is counted for each principal of a tenant, delayed calls and those behind others included'({
    store,
  }) {
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
    assert.deepEqual([...(await store.waiting('nobody', 100))], [])
  },
}
