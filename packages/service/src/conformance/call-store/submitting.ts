import assert from 'node:assert/strict'
import { plainOf } from '../../storage/calls/call-facts.ts'
import type { AdmittedCall } from '../../storage/calls/call-store.ts'
import { type Cases, claimOne, idsOf, loseOne, mine, someCall, someEnding, someResult, theirs } from './samples.ts'

/** A call with every optional field. */
const whole: AdmittedCall = someCall('whole', {
  kind: 'chain',
  identity: { principal: 'ada', tenant: 'acme', permissions: ['a:*', '"'], roles: ['admin'] },
  key: 'a key',
  payload: '{"text":"\\u0000 \\ud800 “ü” \\\\ \'"}',
  timeoutMs: 5_000,
  priority: 7,
  slot: { key: 'printer', limit: 2 },
  callback: 'https://example.com/?a=1',
  trace: '00-1',
  redriveOf: 'd1',
})

export const submitting: Cases = {
  async 'a call is claimed as it was submitted'({ store }) {
    assert.deepEqual(await store.submit([whole]), [{ kind: 'new', callId: 'whole' }])
    const claim = await claimOne(store)
    assert.deepEqual(claim.call, whole)
    assert.deepEqual(
      { ...claim, call: undefined },
      {
        callId: 'whole',
        call: undefined,
        fence: 1,
        deliveries: 1,
        lost: 0,
        deaths: 0,
        faults: 0,
        rests: 0,
        begun: false,
        cancelled: false,
      },
    )
  },

  async 'a call without optional fields is claimed without them'({ store }) {
    const { digest: _, payload: __, ...call } = someCall('c', { payloadRef: 'sha256:1' })
    await store.submit([call])
    assert.deepEqual((await claimOne(store)).call, call)
  },

  async 'an unflushed submission is visible like any other, and its claim is marked as unflushed'({ store }) {
    const submitted = await store.submit([someCall('c', { key: 'k' })], mine, { unflushed: true })
    const [claim] = submitted.flatMap((one) => (one.kind === 'new' ? [one.claim] : []))
    assert.deepEqual([claim?.callId, claim?.fence, claim?.unflushed], ['c', 1, true])
    assert.deepEqual(await store.submit([someCall('d', { key: 'k' })], mine), [{ kind: 'duplicate', callId: 'c' }])
    assert.deepEqual([await store.flush('c'), await store.flush('missing')], [true, false])
    assert.deepEqual(await store.finish([someEnding({ callId: 'c', fence: 1 })]), ['c'])
    assert.equal(await store.flush('c'), true)
    const usual = await store.submit([someCall('e')], mine, { unflushed: false })
    assert.deepEqual(
      usual.map((one) => one.kind === 'new' && one.claim?.unflushed),
      [undefined],
    )
  },

  async 'an empty submission returns an empty list'({ store }) {
    assert.deepEqual(await store.submit([]), [])
    assert.deepEqual(await store.submit([], mine), [])
  },

  async 'a call with the same key and fingerprint is a duplicate, before and after the first one ends'({ store }) {
    await store.submit([someCall('first', { key: 'k' })])
    const duplicate = [{ kind: 'duplicate', callId: 'first' }]
    assert.deepEqual(await store.submit([someCall('second', { key: 'k' })]), duplicate)
    const claim = await claimOne(store)
    assert.deepEqual(await store.submit([someCall('third', { key: 'k' })], mine), duplicate)
    await store.finish([someEnding(claim)])
    assert.deepEqual(await store.submit([someCall('fourth', { key: 'k' })], mine), duplicate)
    assert.deepEqual(await store.claim(10, mine), [])
  },

  async 'a call that failed with CIRCUIT_OPEN and effect none frees its key, and one with effect possible does not'({
    store,
  }) {
    const open = { code: 'CIRCUIT_OPEN', message: 'It rests.', stage: 'execute', retryable: true } as const
    const ended = async (callId: string, given: object, effect: 'none' | 'possible'): Promise<void> => {
      await store.submit([someCall(callId, { key: callId, ...given })])
      const [claim] = await store.claim(1, mine)
      if (claim === undefined) throw new Error(`${callId} was not claimed.`)
      const result = someResult(callId, { status: 'failed', output: null, error: { ...open, effect } })
      await store.finish([someEnding(claim, { result, ...plainOf(claim.call) })])
    }
    const again = async (callId: string, given: object = {}): Promise<string | undefined> =>
      (await store.submit([someCall(`${callId} again`, { key: callId, ...given })]))[0]?.kind
    const reply = { codec: 'native', transport: 'kafka', to: 'answers', data: {} }
    await ended('none', {}, 'none')
    await ended('possible', {}, 'possible')
    await ended('called back', { callback: 'https://a.example/' }, 'none')
    await ended('of a broker', { reply }, 'none')
    assert.equal(await again('none'), 'new')
    assert.equal(await again('possible'), 'duplicate')
    assert.equal(await again('called back', { callback: 'https://a.example/' }), 'new')
    assert.equal(await again('of a broker', { reply }), 'duplicate')
  },

  async 'the same key with another fingerprint is a conflict'({ store }) {
    await store.submit([someCall('first', { key: 'k' })])
    const other = someCall('second', { key: 'k', fingerprint: 'other' })
    assert.deepEqual(await store.submit([other]), [{ kind: 'conflict', callId: 'first' }])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['first'])
  },

  async 'the same key of another tenant or principal is a new call'({ store }) {
    const identity = { principal: 'ada', tenant: 'acme', permissions: [] }
    const calls = [
      someCall('a', { key: 'k', identity }),
      someCall('b', { key: 'k', identity: { ...identity, tenant: 'other' } }),
      someCall('c', { key: 'k', identity: { ...identity, principal: 'bob' } }),
    ]
    assert.deepEqual(
      (await store.submit(calls)).map(({ kind }) => kind),
      ['new', 'new', 'new'],
    )
  },

  async 'calls without a key are never duplicates of each other'({ store }) {
    const submitted = await store.submit([someCall('a'), someCall('b')])
    assert.deepEqual(
      submitted.map(({ kind }) => kind),
      ['new', 'new'],
    )
  },

  async 'a mixed batch is answered in its order'({ store }) {
    await store.submit([someCall('old', { key: 'k' })])
    const submitted = await store.submit([
      someCall('z'),
      someCall('y', { key: 'k', fingerprint: 'other' }),
      someCall('x', { key: 'm' }),
      someCall('w', { key: 'k' }),
      someCall('v', { key: 'm' }),
      someCall('u', { key: 'm', fingerprint: 'other' }),
      someCall('t'),
    ])
    assert.deepEqual(submitted, [
      { kind: 'new', callId: 'z' },
      { kind: 'conflict', callId: 'old' },
      { kind: 'new', callId: 'x' },
      { kind: 'duplicate', callId: 'old' },
      { kind: 'duplicate', callId: 'x' },
      { kind: 'conflict', callId: 'x' },
      { kind: 'new', callId: 't' },
    ])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['old', 'z', 'x', 't'])
  },

  async 'a call that is submitted again under its id is a duplicate'({ store }) {
    const call = someCall('c', { key: 'k' })
    const plain = someCall('p')
    await store.submit([call, plain])
    const duplicates = [
      { kind: 'duplicate', callId: 'c' },
      { kind: 'duplicate', callId: 'p' },
    ]
    assert.deepEqual(await store.submit([call, plain]), duplicates)
    assert.deepEqual(await store.submit([someCall('twice'), someCall('twice')]), [
      { kind: 'new', callId: 'twice' },
      { kind: 'duplicate', callId: 'twice' },
    ])
    assert.equal((await store.claim(10, mine)).length, 3)
  },

  async 'the id of another call is a conflict'({ store }) {
    await store.submit([someCall('c')])
    const identity = { principal: 'ada', tenant: 'other', permissions: [] }
    for (const given of [{ identity }, { fingerprint: 'other' }, { key: 'k' }]) {
      assert.deepEqual(await store.submit([someCall('c', given)]), [{ kind: 'conflict', callId: 'c' }])
    }
    assert.deepEqual((await claimOne(store)).call, someCall('c'))
  },

  async 'a submission with a claim leases a new call to its submitter, and counts as begun'(fixture) {
    const { store, other, records, pass } = fixture
    const [submitted] = await store.submit([someCall('c', { deadlineMs: 60_000 })], mine)
    assert.ok(submitted?.kind === 'new' && submitted.claim !== undefined)
    const { call, deadlineMs, ...claim } = submitted.claim
    assert.deepEqual(call, someCall('c'))
    assert.ok(deadlineMs !== undefined && deadlineMs > 50_000 && deadlineMs <= 60_000)
    const unblemished = { lost: 0, deaths: 0, faults: 0, rests: 0, begun: false, cancelled: false }
    assert.deepEqual(claim, { callId: 'c', fence: 1, deliveries: 1, ...unblemished })
    assert.deepEqual(await other.claim(10, theirs), [])
    const [start, ...more] = (await records()).audit
    assert.deepEqual([start?.phase, start?.worker, start?.fence, more.length], ['start', 'w1', 1, 0])
    await pass(11_000)
    await other.reclaim({ max: 10 })
    const next = await claimOne(other, theirs)
    assert.deepEqual([next.fence, next.lost, next.deaths, next.begun], [2, 1, 1, true])
  },

  async 'a submission with a claim does not lease calls that are delayed, need a slot or are not new'({ store }) {
    await store.submit([someCall('old', { key: 'k' })])
    const slot = { key: 's', limit: 1 }
    const calls = [
      someCall('a', { delayMs: 60_000 }),
      someCall('b', { slot }),
      someCall('c', { key: 'k' }),
      someCall('d'),
    ]
    const submitted = await store.submit(calls, mine)
    assert.deepEqual(
      submitted.map((one) => [one.kind, one.kind === 'new' && one.claim !== undefined]),
      [
        ['new', false],
        ['new', false],
        ['duplicate', false],
        ['new', true],
      ],
    )
    assert.deepEqual(idsOf(await store.claim(10, theirs)), ['old', 'b'])
  },

  async 'a submission that runs after the notAfter of its claim is stored without a claim'({ store }) {
    const late = { ...mine, notAfter: -1 }
    const calls = [someCall('plain'), someCall('prior', { priority: 1 }), someCall('again', { key: 'k' })]
    await store.submit([someCall('before', { key: 'k' })])
    assert.deepEqual(await store.submit(calls, late), [
      { kind: 'new', callId: 'plain' },
      { kind: 'new', callId: 'prior' },
      { kind: 'duplicate', callId: 'before' },
    ])
    assert.deepEqual(await store.submit([someCall('alone')], late), [{ kind: 'new', callId: 'alone' }])
    assert.deepEqual(idsOf(await store.claim(10, mine)), ['prior', 'before', 'plain', 'alone'])
    const [inTime] = await store.submit([someCall('timely')], { ...mine, notAfter: Date.now() + 3_600_000 })
    assert.ok(inTime?.kind === 'new' && inTime.claim !== undefined)
  },

  async 'of concurrent submissions of the same key one is new and the others are duplicates'({ store, other }) {
    const calls = Array.from({ length: 40 }, (_, index) => someCall(`c${index}`, { key: `k${index % 4}` }))
    const answers = await Promise.all(calls.map((call, index) => (index % 2 === 0 ? store : other).submit([call])))
    const kinds = answers.flat().map(({ kind }) => kind)
    assert.equal(kinds.filter((kind) => kind === 'new').length, 4)
    assert.equal(kinds.filter((kind) => kind === 'duplicate').length, 36)
    const claims = await store.claim(100, mine)
    assert.deepEqual(new Set(answers.flat().map(({ callId }) => callId)), new Set(idsOf(claims)))
    assert.equal(claims.length, 4)
  },

  async 'a call is unchanged after its worker was lost'(fixture) {
    await fixture.store.submit([whole])
    await loseOne(fixture)
    assert.deepEqual((await claimOne(fixture.other, theirs)).call, whole)
  },
}
