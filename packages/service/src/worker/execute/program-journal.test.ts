import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type ChainStep, type Json, ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { pgliteDatabase } from '../../../test/databases.fixture.ts'
import type { JournalRecords } from '../../storage/journal.ts'
import { isLost } from './run-chain.ts'
import { type Ended, type Host, type HostProgram, ProgramSite } from './run-program.fixture.ts'

const codeOf = (error: { readonly code?: string }): Json => error.code ?? 'none'
const steps: ChainStep[] = [
  { id: 'one', tool: 'world:once', args: { n: 5 } },
  { id: 'two', tool: 'world:keyed', args: { n: '{{prev.n}}' } },
]
/** Calls of every effect class, in sequence and in parallel; the numbers are those of its requests. */
const mixed: HostProgram = async ({ call, chain, sleep }) => {
  const first = await call('world:read', { n: 1 })
  const [once, keyed] = await Promise.all([
    call('world:once', { n: 2 }).catch(codeOf),
    call('world:keyed', { n: 3 }),
    call('world:read', { n: 4 }),
  ])
  await sleep(1)
  const paid = await call('world:pay', { n: 6 })
  const chained = await chain(steps).catch(codeOf)
  const again = await call('world:repeatable', { once, paid })
  return { first, once, keyed, chained, again }
}
const once = ['2', '7.one']
const whole = {
  first: { n: 1 },
  once: { n: 2 },
  keyed: { n: 3 },
  chained: { n: 5 },
  again: { once: { n: 2 }, paid: { n: 6 } },
}
const unknown = 'OUTCOME_UNKNOWN'

function answerOf(ended: Ended): Json {
  if ('value' in ended) return ended.value
  throw ended.error
}

test('durable programs', async (t) => {
  const site = new ProgramSite(await pgliteDatabase(t))
  t.after(() => site.executor.close())
  const { world } = site
  t.beforeEach(() => {
    world.runs.length = 0
    world.keys.clear()
    world.meanwhile = undefined
  })
  /** The calls of a chain are named after the entry of their request. */
  const runs = (): string[] => world.runs.map((run) => run.replace(/^p(\d+)\.[0-9a-f]{12}\.(\w+)$/, '$1.$2'))
  const count = (entry: string): number => runs().filter((run) => run === entry).length
  await t.test('an uninterrupted attempt makes each call once, and a later attempt makes none', async () => {
    assert.deepEqual(answerOf(await site.attempt(mixed, { callId: 'plain' })), whole)
    assert.deepEqual(runs().toSorted(), ['1', '2', '3', '4', '6', '7.one', '7.two', '8'])
    world.runs.length = 0
    const { attempt, ...again } = await site.attempt(mixed, { callId: 'plain' })
    assert.deepEqual([answerOf(again as Ended), runs()], [whole, []])
    assert.equal(attempt.journal.outcomes.length, 8)
  })

  await t.test('wherever a process dies, the next one ends the program, and no once call ran twice', async () => {
    let writes = 0
    const counting = (journal: JournalRecords): JournalRecords => {
      const note =
        <Of extends unknown[], T>(write: (...of: Of) => T) =>
        (...of: Of): T => {
          writes += 1
          return write(...of)
        }
      return { ...journal, begin: note(journal.begin), done: note(journal.done), writeAll: note(journal.writeAll) }
    }
    await site.attempt(mixed, { callId: 'counted', through: counting })
    assert.ok(writes > 6)
    const ends = new Set<string>()
    for (let place = 0; place <= writes; place++) {
      for (const when of ['before', 'after'] as const) {
        const callId = `dies-${place}-${when}`
        world.runs.length = 0
        world.keys.clear()
        await site.attempt(mixed, { callId, through: site.site.dyingAt(place, when) })
        const value = answerOf(await site.attempt(mixed, { callId })) as typeof whole
        for (const entry of once) assert.ok(count(entry) <= 1, `${entry} ran ${count(entry)} times`)
        // An outcome that cannot be known is unknown, and a call that is delivered as done was executed.
        if (count('2') === 0) assert.equal(value.once, unknown)
        assert.deepEqual(value.keyed, { n: 3 })
        assert.equal(world.keys.size, new Set(world.runs).size, 'a repeat has the key of the first')
        ends.add(JSON.stringify(value))
      }
    }
    assert.ok(ends.has(JSON.stringify(whole)))
    assert.ok(
      [...ends].some((end) => end.includes(unknown)),
      'a call that was begun and interrupted is delivered as unknown',
    )
  })

  await t.test('however often processes die, no once call runs twice, and the program ends the same', async () => {
    let programs = 0
    const death = fc.tuple(fc.nat(9), fc.constantFrom('before', 'after' as const))
    await fc.assert(
      fc.asyncProperty(fc.array(death, { maxLength: 5 }), async (deaths) => {
        const callId = `often-${programs++}`
        world.runs.length = 0
        for (const [place, when] of deaths) {
          await site.attempt(mixed, { callId, through: site.site.dyingAt(place, when as 'before' | 'after') })
        }
        const ended = answerOf(await site.attempt(mixed, { callId }))
        for (const entry of once) assert.ok(count(entry) <= 1, entry)
        assert.deepEqual(answerOf(await site.attempt(mixed, { callId })), ended)
      }),
      { numRuns: 20 },
    )
  })

  await t.test('control: a journal that reads nothing runs every call twice', async () => {
    const blind = (journal: JournalRecords): JournalRecords => ({ ...journal, read: async () => new Map() })
    await site.attempt(mixed, { callId: 'blind' })
    await site.attempt(mixed, { callId: 'blind', through: blind })
    assert.equal(count('2'), 2)
  })

  await t.test('outcomes are delivered in the order of their first delivery', async () => {
    const gate = Promise.withResolvers<void>()
    world.meanwhile = (_context, entry) => (entry === '1' ? gate.promise : undefined)
    const racing: HostProgram = async ({ call }) => {
      const order: string[] = []
      const note = (name: string) => (value: Json) => {
        order.push(name)
        if (name === 'third') gate.resolve()
        return value
      }
      await Promise.all([
        call('world:keyed', { n: 1 }).then(note('first')),
        call('world:once', { n: 2 }).then(note('second')),
        call('world:read', { n: 3 }).then(note('third')),
      ])
      return order
    }
    const first = answerOf(await site.attempt(racing, { callId: 'order' }))
    world.meanwhile = undefined
    assert.ok((first as string[]).indexOf('third') < (first as string[]).indexOf('first'))
    assert.deepEqual(answerOf(await site.attempt(racing, { callId: 'order' })), first)
  })

  await t.test(
    'reads need no commit each, and no other call begins before their delivered outcomes are durable',
    async () => {
      let durable = 0
      let busy = 0
      const allRead = Promise.withResolvers<void>()
      const slow = (journal: JournalRecords): JournalRecords => ({
        ...journal,
        async writeAll(holder, entries) {
          busy += 1
          await allRead.promise
          const held = await journal.writeAll(holder, entries)
          durable += entries.filter(({ result }) => result?.startsWith('{') === true).length
          return held
        },
      })
      world.meanwhile = (_context, entry) => {
        if (entry === '30') allRead.resolve()
        if (entry === '31') assert.equal(durable, 30)
      }
      const reading: HostProgram = async ({ call }) => {
        for (let n = 0; n < 30; n++) await call('world:read', { n })
        await call('world:keyed')
        return null
      }
      answerOf(await site.attempt(reading, { callId: 'reads', through: slow }))
      assert.deepEqual([durable, runs().length], [31, 31])
      assert.ok(busy < 10, `${busy} statements for 30 reads`)
    },
  )

  await t.test('an attempt that lost its lease makes no more calls, whatever errors the program catches', async () => {
    world.meanwhile = () => site.site.claim('lost')
    const stubborn: HostProgram = async ({ call }) => {
      for (let n = 0; n < 5; n++) await call('world:once', { n }).catch(codeOf)
      return 'done'
    }
    const { attempt, ...ended } = await site.attempt(stubborn, { callId: 'lost' })
    assert.ok('error' in ended)
    assert.ok(isLost(attempt.failure))
    assert.deepEqual(runs(), ['1'])
  })

  await t.test(
    'an attempt waits for an unavailable store, and ends without an outcome when the store refuses',
    async () => {
      let unavailable = 3
      const leaving = (journal: JournalRecords): JournalRecords => ({
        ...journal,
        async writeAll(holder, entries) {
          if (unavailable-- > 0)
            throw new ToolError('STORE_UNAVAILABLE', 'Unavailable.', { details: { outcome: 'unknown' } })
          return journal.writeAll(holder, entries)
        },
      })
      const paying: HostProgram = ({ call }) => call('world:once', { n: 1 })
      assert.deepEqual(answerOf(await site.attempt(paying, { callId: 'interrupted', through: leaving })), { n: 1 })
      const broken = (journal: JournalRecords): JournalRecords => ({
        ...journal,
        writeAll: () => Promise.reject(new ToolError('INTERNAL', 'The statement is wrong.')),
      })
      const { attempt } = await site.attempt(paying, { callId: 'broken', through: broken })
      assert.match(String(attempt.failure), /statement is wrong/)
      assert.deepEqual(runs(), ['1'])
    },
  )

  await t.test(
    'a stopped program keeps its recorded outcomes; an interrupted call runs again if its effect allows it',
    async () => {
      for (const [tool, value] of [
        ['keyed', { n: 2 }],
        ['once', unknown],
      ] as const) {
        const callId = `stopped-${tool}`
        const stop = new AbortController()
        world.runs.length = 0
        world.meanwhile = (_context, entry) => {
          if (entry !== '2') return undefined
          stop.abort()
          return new Promise(() => undefined)
        }
        const two: HostProgram = async ({ call }) => {
          await call('world:once', { n: 1 })
          return call(`world:${tool}`, { n: 2 }).catch(codeOf)
        }
        assert.ok('error' in (await site.attempt(two, { callId, signal: stop.signal })))
        world.meanwhile = undefined
        assert.deepEqual(answerOf(await site.attempt(two, { callId })), value)
        assert.deepEqual(runs(), tool === 'once' ? ['1', '2'] : ['1', '2', '2'])
      }
    },
  )

  await t.test('another request under the number of one that was begun is a divergence', async () => {
    world.meanwhile = () => new Promise(() => undefined)
    const stop = new AbortController()
    setTimeout(() => stop.abort(), 50)
    await site.attempt(({ call }) => call('world:once', { n: 1 }), { callId: 'other', signal: stop.signal })
    world.meanwhile = undefined
    const { error } = (await site.attempt(({ call }) => call('world:once', { n: 2 }), { callId: 'other' })) as {
      error: unknown
    }
    assert.ok(ToolError.is(error) && error.code === 'CODE_DIVERGED')
    assert.equal(error.details?.number, 1)
    assert.deepEqual(runs(), ['1'])
  })

  await t.test(
    'clock and seed are the same in every attempt, and the clock advances with each delivered outcome',
    async () => {
      const looking: HostProgram = async ({ call, now, seed }: Host) => {
        const times = [now()]
        for (let n = 0; n < 3; n++) {
          await call('world:keyed', { n })
          times.push(now())
        }
        return { times, seed }
      }
      const first = answerOf(await site.attempt(looking, { callId: 'clock' })) as { times: number[]; seed: number }
      assert.deepEqual(first.times, first.times.toSorted())
      assert.deepEqual(answerOf(await site.attempt(looking, { callId: 'clock' })), first)
      const other = answerOf(await site.attempt(looking, { callId: 'clock-2' })) as { seed: number }
      assert.notEqual(other.seed, first.seed)
    },
  )

  await t.test('an attempt knows that the program had begun, also before any outcome was delivered', async () => {
    const once: HostProgram = ({ call }) => call('world:once', { n: 1 }).catch(codeOf)
    const first = await site.attempt(once, { callId: 'began', through: site.site.dyingAt(0, 'after') })
    const second = await site.attempt(once, { callId: 'began' })
    const quiet = await site.attempt(async () => null, { callId: 'quiet' })
    const ended = await site.attempt(async () => null, { callId: 'quiet' })
    const begun = [first, second, quiet, ended].map(({ attempt }) => attempt.journal)
    assert.ok(begun.every(({ outcomes }) => outcomes.length === 0))
    assert.deepEqual(
      begun.map(({ resumed }) => resumed),
      [false, true, false, false],
    )
  })

  await t.test('a program that repeats another resumes where that one was', async () => {
    await site.attempt(mixed, { callId: 'origin', through: site.site.dyingAt(4, 'after') })
    const before = runs().length
    const value = answerOf(await site.attempt(mixed, { callId: 'repeat', effectKey: 'origin' })) as typeof whole
    assert.ok(before > 0)
    assert.deepEqual(value.first, { n: 1 })
    assert.equal(count('1'), 1)
    for (const entry of once) assert.ok(count(entry) <= 1)
  })
})
