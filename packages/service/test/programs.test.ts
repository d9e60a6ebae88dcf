import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { CallView, JsonObject, Result } from '@gantry/contract'
import { noBubblewrap } from '../../conformance/src/sandbox-test.ts'
import { ada, bob, ledgerOf, questionOf, stateOf } from './approvals.fixture.ts'
import { eventually } from './broker-site.fixture.ts'
import { databaseEngines, pgliteDatabase } from './databases.fixture.ts'
import { sampleTool } from './sample-tool.fixture.ts'
import { openServiceSite } from './service-site.fixture.ts'

const never = new AbortController().signal

for (const [engine, open] of Object.entries(databaseEngines)) {
  test(`programs in the service, on ${engine}`, async (t) => {
    const { tools, ran } = ledgerOf()
    const { service, database, configure } = await openServiceSite(t, open, { tools })
    t.beforeEach(() => {
      ran.length = 0
    })
    const submit = async (code: string, more: JsonObject = {}): Promise<string> => {
      const input = { kind: 'call', tool: 'code:program', args: { code }, ...more } as const
      return (await service.submit(input, ada)).callId
    }
    const end = async (callId: string): Promise<CallView & { readonly result: Result }> => {
      await service.wait(callId, ada, 20_000, never)
      const view = await service.call(callId, ada)
      assert.ok(view.result !== undefined, `it has not ended, it is ${view.state}`)
      return view as CallView & { readonly result: Result }
    }
    const decide = async (callId: string, decision: 'approve' | 'deny' = 'approve'): Promise<void> => {
      const { id } = await questionOf({ service } as never, callId)
      await service.approvals.decide(id, { decision }, bob)
    }
    const asked = (callId: string) => stateOf({ service } as never, callId, 'asked')
    const journal = (callId: string) =>
      database.query<{ entry: string; result: string }>('select entry, result from journal where call_id = $1', [
        callId,
      ])

    await t.test('a program is a call of kind `code`, and its inner calls are journaled', async () => {
      const callId = await submit(`
        const one = await tools.t.plain({ n: 1 })
        const both = await Promise.all([2, 3].map((n) => tools.t.plain({ n })))
        return [one, ...both].map(({ args }) => args.n)`)
      const { kind, state, attempts, result } = await end(callId)
      assert.deepEqual([kind, state, attempts, result.output], ['code', 'ok', 1, [1, 2, 3]])
      assert.deepEqual(
        result.program?.calls.map((call) => [call.number, call.callId, call.status]),
        [1, 2, 3].map((n) => [n, `${callId}.${n}`, 'ok']),
      )
      assert.equal((await journal(callId)).length, 4)
    })

    await t.test(
      'a program waits for approval at a call, and resumes there without repeating calls or output',
      async () => {
        const callId = await submit(`
        print('before')
        const one = await tools.t.plain({ n: 1 })
        const paid = await tools.t.pay({ n: one.args.n + 1 })
        print('after')
        return (await tools.t.plain({ n: paid.args.n + 1 })).args.n`)
        await asked(callId)
        assert.deepEqual(ran, ['plain {"n":1} ada'])
        await decide(callId)
        const { result, attempts } = await end(callId)
        assert.deepEqual([result.output, attempts, result.program?.printed], [3, 2, 'before\nafter\n'])
        assert.deepEqual(ran, ['plain {"n":1} ada', 'pay {"n":2} ada', 'plain {"n":3} ada'])
        assert.equal(result.program?.calls[0]?.recalled, true)
        const printed: unknown[] = []
        for await (const event of await service.events(callId, 0, ada, never)) {
          if (event.kind === 'chunk') printed.push((event.data as { text: string }).text)
        }
        assert.deepEqual(printed, ['before\n', 'after\n'], 'output is not repeated')
      },
    )

    await t.test('a denied call throws in the program, and concurrent calls complete', async () => {
      const callId = await submit(`
        const [paid, beside] = await Promise.allSettled([tools.t.pay({}), tools.t.plain({ n: 1 })])
        return [paid.reason.code, beside.value.args.n]`)
      await asked(callId)
      await decide(callId, 'deny')
      assert.deepEqual((await end(callId)).result.output, ['DENIED', 1])
      assert.deepEqual(ran, ['plain {"n":1} ada'])
    })

    await t.test(
      'a nested chain and a nested program wait for approval and resume without repeating calls',
      async () => {
        const inner = JSON.stringify('await tools.t.plain({ n: 4 }); return (await tools.t.pay({ n: 5 })).args.n')
        const callId = await submit(`
        const chained = await chain([{ tool: 't:plain', args: { n: 1 } }, { tool: 't:pay', args: { n: 2 } }])
        const nested = await tools.code.program({ code: ${inner} })
        return [chained.args.n, nested]`)
        await asked(callId)
        await decide(callId)
        await eventually(async () => (ran.length === 3 ? true : undefined), 'the program inside')
        await asked(callId)
        await decide(callId)
        assert.deepEqual((await end(callId)).result.output, [2, 5])
        assert.deepEqual(ran, ['plain {"n":1} ada', 'pay {"n":2} ada', 'plain {"n":4} ada', 'pay {"n":5} ada'])
      },
    )

    await t.test(
      'a sleeping program is released, and resumes after its sleep or times out at its deadline',
      async () => {
        const deadline = new Date(Date.now() + 3_000).toISOString()
        const late = await submit('await tools.t.plain({ n: 0 }); await sleep(3_600_000)', { deadline })
        const callId = await submit(`
        const before = Date.now()
        await tools.t.plain({ n: 1 })
        await sleep(3_000)
        await tools.t.plain({ n: 2 })
        return Date.now() - before >= 3_000`)
        const { attempts } = await stateOf({ service } as never, callId, 'delayed')
        assert.equal(attempts, 1)
        const { result } = await end(callId)
        assert.equal(result.output, true)
        assert.deepEqual(ran.toSorted(), ['plain {"n":0} ada', 'plain {"n":1} ada', 'plain {"n":2} ada'])
        const { error } = (await end(late)).result
        assert.deepEqual([error?.code, error?.effect], ['TIMEOUT', 'possible'])
      },
    )

    await t.test('a program that sleeps or waits for approval can be cancelled, with effect `possible`', async () => {
      for (const [rest, state] of [
        ['sleep(3_600_000)', 'delayed'],
        ['tools.t.pay({})', 'asked'],
      ] as const) {
        const callId = await submit(`await tools.t.plain({ n: 1 }); await ${rest}`)
        await stateOf({ service } as never, callId, state)
        await service.cancel(callId, ada)
        const { result } = await end(callId)
        assert.deepEqual(
          [result.status, result.error?.code, result.error?.effect],
          ['cancelled', 'CANCELLED', 'possible'],
        )
      }
    })

    await t.test('a resumed program keeps its journaled outcomes although a tool was redefined', async () => {
      const callId = await submit('const one = await tools.t.plain({ n: 1 }); await tools.t.pay({}); return one.name')
      await asked(callId)
      const [, ...others] = tools
      const changed = sampleTool({
        effect: 'once',
        namespace: 't',
        name: 'plain',
        version: '2.0.0',
        description: 'Another one.',
        run: () => assert.fail('It was called.'),
      })
      await configure({ tools: [changed, ...others] })
      await decide(callId)
      assert.deepEqual((await end(callId)).result.output, 'plain')
      await configure({ tools })
    })

    await t.test(
      'a program whose request differs from its journal fails as diverged, and makes no more calls',
      async () => {
        const callId = await submit('await tools.t.plain({ n: 1 }); await tools.t.pay({}); return 1')
        await asked(callId)
        await database.query(`update journal set entry = 'p1.000000000000' where call_id = $1 and entry like 'p1.%'`, [
          callId,
        ])
        await decide(callId)
        const { result } = await end(callId)
        assert.deepEqual([result.status, result.error?.code], ['failed', 'CODE_DIVERGED'])
        assert.equal(result.error?.details?.number, 1)
        assert.deepEqual(ran, ['plain {"n":1} ada'])
      },
    )

    await t.test('a program resumes and replays past gateway requests that were rejected as malformed', async () => {
      const callId = await submit(`
        const wrong = () => search('add', { limit: '3' }).catch(({ code }) => code)
        const branch = async (n, between) => {
          await tools.t.plain({ n })
          const said = await between()
          await tools.t.plain({ n: n + 10 })
          return said
        }
        const [said] = await Promise.all([branch(1, wrong), branch(2, async () => null)])
        await tools.t.pay({})
        return said`)
      await asked(callId)
      await decide(callId)
      const { result } = await end(callId)
      assert.deepEqual([result.status, result.output, ran.length], ['ok', 'INPUT_INVALID', 5], result.error?.message)
      const replay = await service.replay(callId, ada, never)
      assert.deepEqual([replay.same, replay.divergence], [true, undefined])
    })

    await t.test(
      'the result of a program lists every inner call, including those with an unknown outcome',
      async () => {
        const code = `
        const one = await tools.t.plain({ n: 1 }).catch(({ code }) => code)
        const steps = [1, 2].map((n) => ({ id: 's' + n, tool: 't:plain', args: { n }, onError: 'continue' }))
        await chain([...steps, { tool: 't:pay', args: {} }])
        return one`
        const callId = await submit(code)
        await asked(callId)
        // The journal as an attempt leaves it that dies while these calls run.
        const cut = await database.query<{ entry: string }>(
          `update journal set state = 'begun', result = null where call_id = $1 and (entry ~ '^p1[.]' or entry like '%.s1') returning entry`,
          [callId],
        )
        assert.equal(cut.length, 2)
        await decide(callId)
        const { result } = await end(callId)
        assert.equal(result.output, 'OUTCOME_UNKNOWN')
        assert.deepEqual(
          result.program?.calls.map((call) => [
            call.number,
            call.tool,
            call.code ?? call.status,
            call.recalled ?? false,
          ]),
          [
            [1, 't:plain', 'OUTCOME_UNKNOWN', false],
            [2, 't:plain', 'OUTCOME_UNKNOWN', false],
            [2, 't:plain', 'ok', true],
            [2, 't:pay', 'ok', false],
          ],
        )
      },
    )

    await t.test(
      'a replay runs a program over its journal without calling tools, and ends at a call that the journal lacks',
      async () => {
        const callId = await submit(`
        const one = await tools.t.plain({ n: 1 })
        return { n: one.args.n, at: Date.now(), chance: Math.random(), two: (await tools.t.plain({ n: 2 })).args.n }`)
        await end(callId)
        const rows = async () => (await database.query('select count(*)::integer as n from audit'))[0]
        const before = [await rows(), ran.length]
        const replay = await service.replay(callId, ada, never)
        assert.deepEqual([replay.kind, replay.same, replay.differences, replay.warnings], ['code', true, [], []])
        assert.deepEqual([await rows(), ran.length], [{ n: Number((before[0] as { n: number }).n) + 1 }, before[1]])
        await database.query(`delete from journal where call_id = $1 and entry like 'p2.%'`, [callId])
        const cut = await service.replay(callId, ada, never)
        assert.deepEqual([cut.same, cut.divergence?.step, cut.divergence?.tool], [false, '2', 't:plain'])
        assert.equal(ran.length, before[1])
      },
    )

    await t.test(
      'a program whose workers died too often becomes a dead letter, and resumes from its journal when redriven',
      async () => {
        const callId = await submit(
          'const one = await tools.t.plain({ n: 1 }); await tools.t.pay({}); return one.args.n',
        )
        await asked(callId)
        await database.query('update queue set lost = 100, deaths = 100 where call_id = $1', [callId])
        await decide(callId)
        assert.equal((await end(callId)).result.error?.code, 'DELIVERY_EXHAUSTED')
        const letter = (await service.deadLetters({}, ada)).items.find((one) => one.callId === callId)
        const { callId: again } = await service.redrive(letter?.id ?? '', ada)
        await asked(again)
        await decide(again)
        const { kind, result } = await end(again)
        assert.deepEqual([kind, result.output], ['code', 1])
        assert.deepEqual(ran, ['plain {"n":1} ada', 'pay {} ada'])
        assert.equal((await service.replay(again, ada, never)).same, true)
      },
    )

    await t.test('a program submitted twice under one idempotency key runs once', async () => {
      const code = 'return (await tools.t.plain({ n: 1 })).args.n'
      const callId = await submit(code, { idempotencyKey: 'same' })
      assert.equal(await submit(code, { idempotencyKey: 'same' }), callId)
      await end(callId)
      assert.deepEqual(ran, ['plain {"n":1} ada'])
    })
  })
}

test(
  'a program in Python waits for approval, resumes, and replays with the same result',
  noBubblewrap === undefined ? {} : { skip: noBubblewrap },
  async (t) => {
    const { tools, ran } = ledgerOf()
    const site = await openServiceSite(t, pgliteDatabase, { tools })
    const code = `
import random, time
one = await tools.t.plain(n=1)
chance = random.random()
two, three = await asyncio.gather(tools.t.plain(n=2), tools.t.plain(n=3))
paid = await tools.t.pay(n=4)
return [one['args']['n'], two['args']['n'], three['args']['n'], paid['args']['n'], chance, time.time()]`
    const input = { kind: 'call', tool: 'code:program', args: { code, language: 'python' } } as const
    const { callId } = await site.service.submit(input, ada)
    await stateOf(site, callId, 'asked')
    const { id } = await questionOf(site, callId)
    await site.service.approvals.decide(id, { decision: 'approve' }, bob)
    const { output } = (await site.service.wait(callId, ada, 20_000, never)) as Result
    assert.deepEqual((output as number[]).slice(0, 4), [1, 2, 3, 4])
    assert.deepEqual(ran.toSorted(), ['pay {"n":4} ada', ...[1, 2, 3].map((n) => `plain {"n":${n}} ada`)])
    assert.equal((await site.service.replay(callId, ada, never)).same, true)
  },
)
