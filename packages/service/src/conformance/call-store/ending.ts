import assert from 'node:assert/strict'
import {
  type Cases,
  claimOne,
  idsOf,
  loseOne,
  manyCalls,
  mine,
  someCall,
  someEnding,
  someResult,
  theirs,
} from './samples.ts'

export const ending: Cases = {
  async 'a completed call has its result and its attempt, and is not in the queue'({ store, records }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    const end = someEnding(claim)
    assert.deepEqual(await store.finish([end]), ['c'])
    const { results, attempts, outbox, deadLetters } = await records()
    assert.deepEqual(results, [{ callId: 'c', fence: 1, status: 'ok', text: end.text, bytes: end.bytes }])
    assert.deepEqual(attempts, [{ callId: 'c', fence: 1, worker: 'w1', outcome: 'ok' }])
    assert.deepEqual([outbox, deadLetters], [[], []])
    assert.deepEqual(await store.claim(10, mine), [])
    assert.equal(await store.depth(10), 0)
  },

  async 'a call is completed once'({ store, records }) {
    await store.submit([someCall('c')])
    const claim = await claimOne(store)
    const failed = someEnding(claim, { result: someResult('c', { status: 'failed' }) })
    assert.deepEqual(await store.finish([failed]), ['c'])
    assert.deepEqual(await store.finish([someEnding(claim)]), [])
    const { results, audit } = await records()
    assert.deepEqual(
      results.map(({ status }) => status),
      ['failed'],
    )
    assert.equal(audit.filter(({ phase }) => phase === 'end').length, 1)
  },

  async 'the error code is stored beside the status'({ store, records }) {
    await store.submit([someCall('c')])
    const error = {
      code: 'BACKEND_FAILED',
      message: 'no',
      stage: 'execute',
      retryable: false,
      effect: 'possible',
    } as const
    await store.finish([someEnding(await claimOne(store), { result: someResult('c', { status: 'failed', error }) })])
    const { results, audit } = await records()
    assert.deepEqual([results[0]?.status, results[0]?.code], ['failed', 'BACKEND_FAILED'])
    assert.deepEqual([audit[1]?.status, audit[1]?.code], ['failed', 'BACKEND_FAILED'])
  },

  async 'a worker whose lease was reclaimed can complete the call until it is claimed again'(fixture) {
    const { store, records } = fixture
    await store.submit([someCall('c')])
    const late = await loseOne(fixture)
    assert.deepEqual(await store.finish([someEnding(late)]), ['c'])
    const { attempts, audit } = await records()
    assert.deepEqual(attempts, [{ callId: 'c', fence: 1, worker: 'w1', outcome: 'ok' }])
    assert.deepEqual(
      audit.map(({ phase }) => phase),
      ['start', 'lost', 'end'],
    )
    assert.deepEqual(await store.claim(10, mine), [])
  },

  async 'an outcome under an older fence is refused once the call is claimed again'(fixture) {
    const { store, other, records } = fixture
    await store.submit([someCall('c')])
    const late = await loseOne(fixture)
    const now = await claimOne(other, theirs)
    assert.deepEqual(await store.finish([someEnding(late)]), [])
    assert.deepEqual(await other.finish([someEnding(now, { result: someResult('c', { status: 'failed' }) })]), ['c'])
    assert.deepEqual(await store.finish([someEnding(late)]), [])
    const { results, attempts } = await records()
    assert.deepEqual(
      results.map(({ fence, status }) => [fence, status]),
      [[2, 'failed']],
    )
    assert.deepEqual(
      attempts.map(({ fence, outcome }) => [fence, outcome]),
      [
        [1, 'lost'],
        [2, 'failed'],
      ],
    )
  },

  async 'finish() accepts the valid outcomes of a batch and refuses the others'(fixture) {
    const { store } = fixture
    await store.submit(manyCalls(50))
    const claims = await store.claim(50, mine)
    await store.finish(claims.slice(0, 10).map((claim) => someEnding(claim)))
    const wrong = claims.slice(10, 20).map((claim) => someEnding({ ...claim, fence: 9 }))
    const missing = someEnding({ callId: 'missing', fence: 1 })
    const all = [missing, ...wrong, ...claims.slice(0, 10).map((claim) => someEnding(claim))]
    const right = claims.slice(20).toReversed()
    const accepted = await store.finish([...all, ...right.map((claim) => someEnding(claim))])
    assert.deepEqual([...accepted].sort(), idsOf(claims.slice(20)))
  },

  async 'a batch with repeated outcomes, or one under an older fence, stores one outcome per call'(fixture) {
    const { store, records } = fixture
    await store.submit([someCall('c')])
    const late = await loseOne(fixture)
    const now = await claimOne(store)
    const accepted = await store.finish([someEnding(late), someEnding(now), someEnding(now)])
    assert.deepEqual(accepted, ['c'])
    assert.deepEqual(
      (await records()).results.map(({ fence }) => fence),
      [2],
    )
  },

  async 'outcomes() returns the calls that were completed under exactly that fence'(fixture) {
    const { store } = fixture
    await store.submit([someCall('mine'), someCall('expired', { deadlineMs: 1_000 })])
    const [mineClaim, released] = await store.claim(2, mine)
    assert.ok(mineClaim !== undefined && released !== undefined)
    await store.release([released])
    await store.finish([someEnding(mineClaim)])
    await fixture.pass(2_000)
    assert.deepEqual((await store.reclaim({ max: 10 })).expired, ['expired'])
    const holders = [mineClaim, released, { callId: 'mine', fence: 2 }, { callId: 'missing', fence: 1 }]
    assert.deepEqual(await store.outcomes(holders), ['mine'])
  },

  async 'completing a call with a callback adds it to the outbox'({ store, records }) {
    await store.submit([someCall('a', { callback: 'https://example.com/a' }), someCall('b')])
    const claims = await store.claim(2, mine)
    await store.finish(claims.map((claim) => someEnding(claim)))
    const message = { callId: 'a', tenant: 'acme', kind: 'callback', target: 'https://example.com/a' }
    assert.deepEqual((await records()).outbox, [message])
  },

  async 'an ending with `dead` writes a dead letter'(fixture) {
    const { store, records } = fixture
    await store.submit([someCall('c')])
    await loseOne(fixture)
    const error = {
      code: 'DELIVERY_EXHAUSTED',
      message: 'no',
      stage: 'admit',
      retryable: false,
      effect: 'possible',
    } as const
    const result = someResult('c', { status: 'failed', error })
    await store.finish([someEnding(await claimOne(store), { result, dead: { reason: 'It \0 killed \ud800 two.' } })])
    const [deadLetter, ...more] = (await records()).deadLetters
    assert.equal(more.length, 0)
    const { reason, ...rest } = deadLetter ?? {}
    const { tenant, tool } = { tenant: 'acme', tool: 'math:add:1.0.0' }
    assert.deepEqual(rest, {
      id: 'c',
      tenant,
      callId: 'c',
      source: 'call',
      code: 'DELIVERY_EXHAUSTED',
      tool,
      deliveries: 2,
    })
    assert.match(reason ?? '', /^It .* killed .* two\.$/)
  },

  async 'a dead letter of a result without an error has the code INTERNAL'({ store, records }) {
    await store.submit([someCall('c')])
    await store.finish([someEnding(await claimOne(store), { dead: { reason: 'odd' } })])
    assert.equal((await records()).deadLetters[0]?.code, 'INTERNAL')
  },

  async 'the text of a result is stored unchanged, and an offloaded result as its reference'({ store, records }) {
    await store.submit([someCall('a'), someCall('b')])
    const [a, b] = await store.claim(2, mine)
    assert.ok(a !== undefined && b !== undefined)
    const text = `{"n":1e999,"x":"\\u0000\\ud800 \\" ü 🙂 '","big":${'9'.repeat(40)}}`
    const { text: _, ...elsewhere } = someEnding(b, { ref: 'sha256:1', bytes: 5_000_000 })
    await store.finish([someEnding(a, { text }), elsewhere])
    const { results } = await records()
    assert.equal(results.find(({ callId }) => callId === 'a')?.text, text)
    const kept = { callId: 'b', fence: 1, status: 'ok', ref: 'sha256:1', bytes: 5_000_000 }
    assert.deepEqual(
      results.find(({ callId }) => callId === 'b'),
      kept,
    )
  },

  async 'a chain is completed with a chain result'({ store, records }) {
    await store.submit([someCall('c', { kind: 'chain', tool: 'chain' })])
    const claim = await claimOne(store)
    const result = { chainId: 'c', status: 'ok', output: 1, steps: [], startedAt: '', durationMs: 1 } as const
    assert.deepEqual(await store.finish([someEnding(claim, { result })]), ['c'])
    assert.equal((await records()).results[0]?.text, JSON.stringify(result))
  },

  async 'of two concurrent completions under the same fence one is accepted'({ store, other, records }) {
    await store.submit(manyCalls(100))
    const claims = await store.claim(100, mine)
    const ends = claims.map((claim) => someEnding(claim))
    const [here, there] = await Promise.all([store.finish(ends), other.finish(ends.toReversed())])
    assert.deepEqual([...here, ...there].sort(), idsOf(claims))
    assert.equal((await records()).results.length, 100)
  },
}
