import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type ChainStep, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { pgliteDatabase, postgresDatabase } from '../../../test/databases.fixture.ts'
import { isMarkedWaiting } from '../../storage/calls/call-facts.ts'
import type { Database } from '../../storage/databases/database.ts'
import type { JournalRecords } from '../../storage/journal.ts'
import { Site, unlimited } from './run-chain.fixture.ts'
import { isLost } from './run-chain.ts'

const engines: { readonly [name: string]: (t: TestContext) => Promise<Database> } = {
  pglite: pgliteDatabase,
  postgres: async (t) => (await postgresDatabase(t)).database,
}

const steps: ChainStep[] = [
  { id: 'first', tool: 'world:once', args: { n: '{{input}}' } },
  { id: 'each', tool: 'world:keyed', forEach: [1, 2, 3], concurrency: 2, args: { i: '{{item}}', p: '{{prev.n}}' } },
  {
    id: 'group',
    parallel: [
      { id: 'paid', tool: 'world:pay', args: { of: '{{prev[0].i}}' } },
      { id: 'left', tool: 'world:once' },
      { id: 'right', tool: 'world:read', forEach: [1, 2] },
    ],
  },
  { id: 'never', tool: 'world:once', when: false },
  { id: 'last', tool: 'world:once', args: { paid: '{{steps.paid.output.of}}', all: '{{prev}}' } },
]
const entries = ['each.0', 'each.1', 'each.2', 'first', 'last', 'left', 'paid', 'right.0', 'right.1']
const delicate = ['first', 'last', 'left', 'paid']
const once = ['first', 'last', 'left']
const writes = entries.length + delicate.length

const isDeath = (error: unknown): boolean => ToolError.is(error) && error.message === 'The process died.'

for (const [name, open] of Object.entries(engines)) {
  test(`${name}: a chain whose worker dies at any of its writes is resumed, and repeats no recorded call`, async (t) => {
    const site = new Site(await open(t))
    const whole = await site.attempt({ steps, callId: 'whole', input: 7 })
    assert.equal(whole.status, 'ok')
    assert.deepEqual(await site.entries('whole', 'done'), entries)
    assert.deepEqual(site.world.runs.toSorted(), entries)
    const ends = { ok: 0, unknown: 0 }
    for (const when of ['before', 'after'] as const) {
      for (let place = 0; place < writes; place++) {
        const callId = `${when}-${place}`
        site.world.runs.length = 0
        const dying = site.attempt({ steps, callId, input: 7, through: site.dyingAt(place, when) })
        await assert.rejects(dying, isDeath, callId)
        const done = await site.entries(callId, 'done')
        const doubtful = (await site.entries(callId, 'begun')).filter((entry) => once.includes(entry))
        const before = site.world.runs.length
        const result = await site.attempt({ steps, callId, input: 7 })
        const again = site.world.runs.slice(before)
        assert.deepEqual(
          again.filter((entry) => done.includes(entry)),
          [],
          `${callId} repeated what was done`,
        )
        for (const entry of delicate) assert.ok(site.world.count(entry) <= 1, `${callId} ran ${entry} twice`)
        if (doubtful.length === 0) {
          assert.deepEqual([result.status, result.output], ['ok', whole.output], callId)
          assert.deepEqual([...new Set(site.world.runs)].toSorted(), entries, callId)
          ends.ok += 1
        } else {
          assert.deepEqual([result.status, result.error?.code], ['unknown', 'OUTCOME_UNKNOWN'], callId)
          assert.ok(doubtful.includes(String(result.error?.details?.step)), callId)
          ends.unknown += 1
        }
      }
    }
    // Each of three steps that may run once only: after it was begun, and before it was done.
    assert.ok(ends.unknown >= 2 * once.length && ends.ok > 0, JSON.stringify(ends))
    await site.executor.close()
  })
}

test('on PGlite', async (t) => {
  const site = new Site(await pgliteDatabase(t))
  t.after(() => site.executor.close())
  t.beforeEach(() => {
    site.world.runs.length = 0
    site.world.meanwhile = undefined
    site.reports.length = 0
    site.gate = unlimited
  })

  await t.test(
    'however often a chain is interrupted, a once call runs at most once, and keys stay the same',
    async () => {
      let chains = 0
      await fc.assert(
        fc.asyncProperty(
          fc.array(fc.tuple(fc.nat({ max: writes - 1 }), fc.constantFrom('before', 'after')), { maxLength: 5 }),
          async (deaths) => {
            const callId = `often-${chains++}`
            site.world.runs.length = 0
            site.world.keys.clear()
            for (const [place, when] of deaths) {
              const dying = site.attempt({ steps, callId, input: 7, through: site.dyingAt(place, when) })
              await dying.catch((error: unknown) => assert.ok(isDeath(error)))
            }
            await site.attempt({ steps, callId, input: 7 })
            for (const entry of delicate) assert.ok(site.world.count(entry) <= 1, entry)
            assert.equal(site.world.keys.size, new Set(site.world.runs).size)
          },
        ),
        { numRuns: 20 },
      )
    },
  )

  await t.test('control: an attempt that does not read the journal runs every call twice', async () => {
    const blind = (journal: JournalRecords): JournalRecords => ({ ...journal, read: async () => new Map() })
    await site.attempt({ steps, callId: 'blind' })
    await site.attempt({ steps, callId: 'blind', through: blind })
    assert.equal(site.world.count('first'), 2)
  })

  await t.test('a tool is called as the caller, under an idempotency key for each call', async () => {
    site.world.keys.clear()
    await site.attempt({ steps, callId: 'names', input: 1 })
    const named = [...site.world.keys.keys()].map((name) => name.split(' '))
    assert.deepEqual(named.map(([entry]) => entry).toSorted(), entries)
    assert.equal(new Set(named.map(([, key]) => key)).size, entries.length)
    assert.ok(named.every(([, key = '']) => /^[0-9a-f]{64}$/.test(key)))
    assert.deepEqual([...new Set(site.world.keys.values())], ['ada'])
  })

  await t.test(
    'a call that was executed and not recorded is found by its check, and one that was not runs once',
    async () => {
      const pay: ChainStep[] = [{ id: 'paid', tool: 'world:pay', args: { of: 5 } }]
      for (const [place, runs] of [
        [0, 0],
        [1, 1],
      ] as const) {
        const callId = `pay-${place}`
        site.world.runs.length = 0
        const through = site.dyingAt(place, place === 0 ? 'after' : 'before')
        await assert.rejects(site.attempt({ steps: pay, callId, through }), isDeath)
        assert.equal(site.world.count('paid'), runs)
        const result = await site.attempt({ steps: pay, callId })
        assert.deepEqual([result.status, result.output, site.world.count('paid')], ['ok', { of: 5 }, 1])
      }
    },
  )

  await t.test('a worker that lost its lease makes no more calls, whatever failures its steps tolerate', async () => {
    const callId = 'lost'
    site.world.meanwhile = () => site.claim(callId)
    const two: ChainStep[] = [{ tool: 'world:keyed', onError: 'continue' }, { tool: 'world:keyed' }]
    await assert.rejects(site.attempt({ steps: two, callId }), isLost)
    assert.deepEqual([site.world.runs, await site.entries(callId, 'done')], [['step1'], []])
    const delicateStep: ChainStep[] = [{ tool: 'world:once', onError: 'continue' }]
    const robbed = (journal: JournalRecords): JournalRecords => ({
      ...journal,
      async begin(holder, entry) {
        await site.claim('robbed')
        return journal.begin(holder, entry)
      },
    })
    await assert.rejects(site.attempt({ steps: delicateStep, callId: 'robbed', through: robbed }), isLost)
    assert.equal(site.world.runs.length, 1)
  })

  await t.test(
    'a stopped chain keeps its recorded calls; an interrupted call runs again if its effect allows it',
    async () => {
      for (const [tool, status] of [
        ['keyed', 'ok'],
        ['once', 'unknown'],
      ] as const) {
        const callId = `stopped-${tool}`
        const stop = new AbortController()
        site.world.runs.length = 0
        site.world.meanwhile = (_context, entry) => {
          if (entry !== 'two') return undefined
          stop.abort()
          return new Promise(() => undefined)
        }
        const chain: ChainStep[] = [
          { id: 'one', tool: 'world:once' },
          { id: 'two', tool: `world:${tool}` },
        ]
        const first = await site.attempt({ steps: chain, callId, signal: stop.signal })
        assert.deepEqual([first.status, await site.entries(callId, 'done')], ['cancelled', ['one']])
        site.world.meanwhile = undefined
        const second = await site.attempt({ steps: chain, callId })
        assert.equal(second.status, status)
        assert.deepEqual(site.world.runs, tool === 'once' ? ['one', 'two'] : ['one', 'two', 'two'])
      }
    },
  )

  await t.test(
    'an open circuit ends the chain, and its call is recorded, unless the caller or the tool chose to wait',
    async () => {
      for (const [name, onCircuitOpen] of [
        ['once', undefined],
        ['patient', 'fail'],
      ] as const) {
        const callId = `open-${name}`
        site.world.meanwhile = () => {
          throw new ToolError('CIRCUIT_OPEN', 'It rests.', { effect: 'none', details: { retryAfterMs: 5 } })
        }
        const chain: ChainStep[] = [{ id: 'one', tool: `world:${name}`, args: { n: 1 } }]
        const asked = { steps: chain, callId, ...(onCircuitOpen === undefined ? {} : { onCircuitOpen }) }
        const first = await site.attempt(asked)
        assert.deepEqual([first.error?.code, isMarkedWaiting(first)], ['CIRCUIT_OPEN', false])
        assert.deepEqual(await site.entries(callId, 'done'), ['one'])
        site.world.meanwhile = undefined
        assert.equal((await site.attempt(asked)).error?.code, 'CIRCUIT_OPEN', 'the chain has ended')
      }
    },
  )

  await t.test(
    'a call that waits for its circuit is made by the next attempt; one that does not wait is recorded',
    async () => {
      const waiting = { steps: [{ id: 'one', tool: 'world:patient', args: { n: 1 } }], callId: 'patient' }
      site.world.meanwhile = () => {
        throw new ToolError('CIRCUIT_OPEN', 'It rests.', { effect: 'none', details: { retryAfterMs: 5 } })
      }
      const put = await site.attempt(waiting)
      assert.deepEqual([put.error?.code, isMarkedWaiting(put)], ['CIRCUIT_OPEN', true])
      site.world.meanwhile = undefined
      assert.equal((await site.attempt(waiting)).status, 'ok')
      for (const onError of ['stop', 'continue'] as const) {
        const callId = `circuit-${onError}`
        site.world.runs.length = 0
        site.world.meanwhile = () => {
          throw new ToolError('CIRCUIT_OPEN', 'It rests.', { effect: 'none', details: { retryAfterMs: 5 } })
        }
        const chain: ChainStep[] = [{ id: 'one', tool: 'world:once', args: { n: 1 }, onError }]
        const first = await site.attempt({ steps: chain, callId, onCircuitOpen: 'wait' })
        assert.equal(first.status, onError === 'stop' ? 'failed' : 'ok')
        assert.deepEqual(await site.entries(callId, 'begun'), [])
        site.world.meanwhile = undefined
        const second = await site.attempt({ steps: chain, callId, onCircuitOpen: 'wait' })
        assert.deepEqual([second.status, second.output], ['ok', onError === 'stop' ? { n: 1 } : null])
        assert.equal(site.world.count('one'), onError === 'stop' ? 2 : 1)
      }
    },
  )

  await t.test(
    'each call that is made is charged once, and none that is replayed; elements after the first are charged',
    async () => {
      const asked: number[] = []
      const inside = async (_who: unknown, cost: number): Promise<() => void> => {
        asked.push(cost)
        return () => undefined
      }
      site.gate = { ...unlimited, inside }
      const dear: ChainStep[] = [
        { id: 'one', tool: 'world:dear' },
        { id: 'each', tool: 'world:dear', forEach: [1, 2, 3, 4] },
      ]
      const through = site.dyingAt(3, 'before')
      await assert.rejects(site.attempt({ steps: dear, callId: 'counted', through }), isDeath)
      assert.deepEqual(await site.entries('counted', 'done'), ['each.0', 'each.1', 'one'])
      assert.deepEqual(asked.splice(0), [0, 0, 7, 7])
      assert.equal((await site.attempt({ steps: dear, callId: 'counted' })).status, 'ok')
      assert.deepEqual(asked.splice(0), [7, 7])
      assert.equal((await site.attempt({ steps: dear, callId: 'counted' })).status, 'ok')
      assert.deepEqual(asked, [])
    },
  )

  await t.test('a call over a limit makes the chain wait, and aborts no other call', async () => {
    const refused = Promise.withResolvers<void>()
    let left = 1
    const inside = async (): Promise<() => void> => {
      if (left-- > 0) return () => undefined
      refused.resolve()
      throw new ToolError('RATE_LIMITED', 'Too many.', { stage: 'admit', details: { retryAfterMs: 5_000 } })
    }
    site.gate = { ...unlimited, inside }
    site.world.meanwhile = async ({ signal }) => {
      await refused.promise
      await new Promise((resolve) => setImmediate(resolve))
      assert.equal(signal.aborted, false)
    }
    const chain: ChainStep[] = [{ id: 'each', tool: 'world:once', forEach: [1, 2, 3], concurrency: 2 }]
    const first = await site.attempt({ steps: chain, callId: 'over' })
    const { code, effect, details } = first.error ?? assert.fail()
    assert.deepEqual([first.status, code, effect, details?.retryAfterMs], ['failed', 'RATE_LIMITED', 'none', 5_000])
    assert.deepEqual([await site.entries('over', 'done'), await site.entries('over', 'begun')], [['each.0'], []])
    assert.deepEqual(site.reports, [], 'a step that waits has not ended')
    site.gate = unlimited
    site.world.meanwhile = undefined
    const second = await site.attempt({ steps: chain, callId: 'over' })
    assert.equal(second.status, 'ok')
    assert.deepEqual(site.world.runs, ['each.0', 'each.1', 'each.2'])
  })

  await t.test('a step that failed is not retried', async () => {
    site.world.meanwhile = () => {
      throw new Error('no luck')
    }
    const chain: ChainStep[] = [{ id: 'one', tool: 'world:keyed' }]
    const ends = [
      await site.attempt({ steps: chain, callId: 'failed' }),
      await site.attempt({ steps: chain, callId: 'failed' }),
    ]
    assert.deepEqual(
      ends.map(({ error }) => error?.message),
      ['no luck', 'no luck'],
    )
    assert.deepEqual(site.world.runs, ['one'])
  })

  await t.test(
    'a chain waits for an unavailable store, and the last call of a chain that is stopped meanwhile is recorded',
    async () => {
      let unavailable = 2
      const leaving = (journal: JournalRecords): JournalRecords => {
        const hard = async <T>(work: () => Promise<T>): Promise<T> => {
          if (unavailable-- > 0)
            throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.', { details: { outcome: 'unknown' } })
          return work()
        }
        return {
          begin: (holder, entry) => hard(() => journal.begin(holder, entry)),
          done: (holder, entry, result) => hard(() => journal.done(holder, entry, result)),
          forget: (holder, entry) => hard(() => journal.forget(holder, entry)),
          writeAll: (holder, entries) => hard(() => journal.writeAll(holder, entries)),
          read: (callId) => hard(() => journal.read(callId)),
        }
      }
      const chain: ChainStep[] = [{ id: 'one', tool: 'world:once', args: { n: 1 } }]
      const waited = await site.attempt({ steps: chain, callId: 'interrupted', through: leaving })
      assert.deepEqual([waited.status, site.world.runs, unavailable], ['ok', ['one'], -2])
      const stop = new AbortController()
      const gone = (journal: JournalRecords): JournalRecords => ({
        ...journal,
        async done() {
          stop.abort()
          throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.')
        },
      })
      const ended = await site.attempt({ steps: chain, callId: 'gone', through: gone, signal: stop.signal })
      assert.deepEqual([ended.status, ended.output], ['ok', { n: 1 }])
      assert.equal((await site.attempt({ steps: chain, callId: 'gone' })).status, 'unknown')
    },
  )

  await t.test(
    'a journal that refuses a write ends the attempt without an outcome, whatever failures its steps tolerate',
    async () => {
      const broken = (journal: JournalRecords): JournalRecords => ({
        ...journal,
        done: () => Promise.reject(new ToolError('INTERNAL', 'The statement is wrong.')),
      })
      const chain: ChainStep[] = [{ tool: 'world:keyed', onError: 'continue' }, { tool: 'world:keyed' }]
      await assert.rejects(site.attempt({ steps: chain, callId: 'broken', through: broken }), /statement is wrong/)
      assert.deepEqual(site.world.runs, ['step1'])
    },
  )

  await t.test('steps are reported as they end, and not again by a later attempt', async () => {
    const dying = site.attempt({ steps, callId: 'reported', input: 7, through: site.dyingAt(writes - 1, 'before') })
    await assert.rejects(dying, isDeath)
    const messages = () => site.reports.map((report) => (report.kind === 'progress' ? report.message : report.kind))
    assert.deepEqual(messages().slice(0, 4), [
      'Step 1 of 5, first: ok.',
      'Step 2 of 5, each: ok.',
      'Step 3 of 5, group: ok.',
      'Step 4 of 5, never: skipped.',
    ])
    site.reports.length = 0
    await site.attempt({ steps, callId: 'reported', input: 7 })
    assert.deepEqual(messages(), ['Step 5 of 5, last: failed.'])
    assert.deepEqual(site.reports, [{ kind: 'progress', progress: 5, total: 5, message: 'Step 5 of 5, last: failed.' }])
  })

  await t.test('the timeout of the call is that of the chain', async () => {
    site.world.meanwhile = () => new Promise(() => undefined)
    const chain: ChainStep[] = [{ tool: 'world:keyed' }]
    const late = await site.attempt({ steps: chain, callId: 'late', timeoutMs: 5 })
    assert.equal(late.status, 'timeout')
  })
})
