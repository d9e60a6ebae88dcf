import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { demoTools } from '@gantry/tools/internal/demo'
import { memoryArtifacts } from '../artifacts/memory.ts'
import type { InnerOutcome } from '../backends/program-journal.ts'
import { defineTool } from '../tools/tool.ts'
import { type MemoryJournal, memoryJournal } from './journal.fixture.ts'

const effects: string[] = []
const effect = defineTool({
  namespace: 'test',
  name: 'effect',
  description: 'Leaves a trace.',
  inputSchema: { type: 'object', properties: { word: { type: 'string' } }, required: ['word'] },
  run: ({ word }) => {
    effects.push(String(word))
    return { word, length: String(word).length }
  },
})
const gantry = createExecutor({ tools: [...demoTools(), effect] })
after(() => gantry.close())

const run = (code: string, journal: MemoryJournal): Promise<Result> =>
  gantry.code(code, { language: 'javascript', program: journal })

const threeCalls = `
  const a = await tools.test.effect({ word: 'a' })
  const [b, c] = await Promise.all([tools.test.effect({ word: 'bb' }), tools.test.effect({ word: 'ccc' })])
  await sleep(5)
  return [a.length, b.length, c.length, Math.random(), Date.now()]`

test('a resumed program replays its journaled outcomes and makes only the missing calls', async () => {
  const first = memoryJournal()
  effects.length = 0
  const whole = await run(threeCalls, first)
  assert.equal(whole.status, 'ok', JSON.stringify(whole.error))
  assert.deepEqual(
    [first.made, effects.toSorted()],
    [
      [1, 2, 3, 4],
      ['a', 'bb', 'ccc'],
    ],
  )
  for (let cut = 0; cut <= first.entries.length; cut += 1) {
    const again = memoryJournal({ journaled: first.entries.slice(0, cut) })
    effects.length = 0
    const result = await run(threeCalls, again)
    assert.deepEqual([result.status, result.output], ['ok', whole.output], `cut at ${cut}`)
    const journaledNumbers = first.entries.slice(0, cut).map(({ number }) => number)
    assert.deepEqual(
      again.made.toSorted(),
      [1, 2, 3, 4].filter((number) => !journaledNumbers.includes(number)),
    )
    const recalled = result.program?.calls.filter((call) => call.recalled).map(({ number }) => number)
    assert.deepEqual(recalled, journaledNumbers.filter((number) => number < 4).toSorted())
  }
})

test('files that a program stored before it was resumed are in its result, once each', async (t) => {
  const keeping = createExecutor({ artifacts: memoryArtifacts() })
  t.after(() => keeping.close())
  const code = "const a = await artifacts.put('a.txt', 'A'); await artifacts.put('b.txt', 'B'); return a.id"
  const first = memoryJournal()
  const whole = await keeping.code(code, { language: 'javascript', program: first })
  const names = ({ artifacts }: Result): string[] => artifacts.map(({ name }) => name ?? '')
  assert.deepEqual(names(whole), ['a.txt', 'b.txt'], JSON.stringify(whole.error))
  for (const cut of [1, 2]) {
    const program = memoryJournal({ journaled: first.entries.slice(0, cut) })
    const again = await keeping.code(code, { language: 'javascript', program })
    assert.deepEqual([names(again), again.output], [names(whole), whole.output])
    assert.deepEqual(again.artifacts[0], whole.artifacts[0])
  }
})

test('a resumed program is not checked again', async (t) => {
  const code = "const { length } = await tools.test.effect({ word: 'a' }); return length"
  const options = { language: 'javascript', check: true } as const
  const first = memoryJournal()
  assert.equal((await gantry.code(code, { ...options, program: first })).output, 1)
  const without = createExecutor()
  t.after(() => without.close())
  const fails = async (program: MemoryJournal) => (await without.code(code, { ...options, program })).error?.code
  assert.equal(await fails(memoryJournal()), 'CODE_INVALID')
  assert.equal(await fails(memoryJournal({ resumed: true })), 'CODE_FAILED', 'it had begun, and finds its tool gone')
  const again = await without.code(code, { ...options, program: memoryJournal({ journaled: first.entries }) })
  assert.deepEqual([again.status, again.output], ['ok', 1], again.error?.message)
})

test('the journal is notified whenever its program is quiescent, with the number of delivered outcomes', async () => {
  const code = `
    const parallel = sleep(2)
    await tools.test.effect({ word: 'a' })
    await Promise.resolve()
    await tools.test.effect({ word: 'b' })
    await parallel`
  const first = memoryJournal({ around: async (ask, make) => (ask.kind === 'sleep' ? held.promise : make()) })
  const held = Promise.withResolvers<InnerOutcome>()
  const whole = run(code, first)
  while (first.rested.at(-1) !== 2) await new Promise((resolve) => setImmediate(resolve))
  assert.deepEqual(
    [first.rested, first.made],
    [
      [0, 1, 2],
      [2, 3],
    ],
  )
  held.resolve({ kind: 'value', value: null })
  assert.equal((await whole).status, 'ok')
  assert.deepEqual(first.rested, [0, 1, 2])
})

test('a journaled program uses the clock and the random seed of its journal', async () => {
  const code = 'await sleep(1); return [Date.now(), performance.now(), Math.random(), crypto.randomUUID()]'
  const { output } = await run(code, memoryJournal({ seed: 3 }))
  assert.deepEqual((output as unknown[]).slice(0, 2), [1_001_000, 1_000])
  assert.deepEqual((await run(code, memoryJournal({ seed: 3 }))).output, output)
  assert.notDeepEqual((await run(code, memoryJournal({ seed: 4 }))).output, output)
})

test('replayed responses arrive in the order of the journal', async () => {
  const code = `
    const order = []
    const note = (name) => () => void order.push(name)
    await Promise.all([sleep(1).then(note('one')), sleep(2).then(note('two')), sleep(3).then(note('three'))])
    return order`
  const first = memoryJournal()
  assert.deepEqual((await run(code, first)).output, ['one', 'two', 'three'])
  const [one, two, three] = first.entries
  assert.ok(one && two && three)
  const turned = memoryJournal({ journaled: [three, one, two] })
  assert.deepEqual((await run(code, turned)).output, ['three', 'one', 'two'])
})

test('a request that differs from the journal is a divergence, and no call is made', async () => {
  const first = memoryJournal()
  await run("return await tools.test.effect({ word: 'a' })", first)
  effects.length = 0
  const again = memoryJournal({ journaled: first.entries })
  const { error, output } = await run("return await tools.test.effect({ word: 'b' })", again)
  assert.deepEqual([error?.code, error?.details?.number, output, effects], ['CODE_DIVERGED', 1, null, []])
  const expected = { fingerprint: first.entries[0]?.fingerprint, tool: 'test:effect' }
  assert.deepEqual(error?.details?.expected, expected)
})

test('a program that ends or is quiescent before requesting a journaled outcome has diverged', async () => {
  const first = memoryJournal()
  await run("await tools.test.effect({ word: 'a' }); return await tools.test.effect({ word: 'b' })", first)
  for (const code of ["return await tools.test.effect({ word: 'a' })", 'return 1']) {
    const { error } = await run(code, memoryJournal({ journaled: first.entries }))
    assert.equal(error?.code, 'CODE_DIVERGED', code)
  }
  const [, second] = first.entries
  assert.ok(second)
  const rests = await run(
    "await tools.test.effect({ word: 'a' }); return await tools.test.effect({ word: 'b' })",
    memoryJournal({ journaled: [second] }),
  )
  assert.deepEqual([rests.error?.code, rests.error?.details?.number], ['CODE_DIVERGED', 2])
})

test('an error of the journal ends the attempt, and the program cannot catch it', async () => {
  const paused = Object.assign(new Error('paused'), { name: 'Paused' })
  const journal = memoryJournal({ around: () => Promise.reject(paused) })
  const { status, error } = await run('try { await tools.demo.add({a: 1, b: 2}) } catch {} return 1', journal)
  assert.deepEqual([status, error?.message], ['failed', 'paused'])
})

test('a refused request is journaled, so that its program replays the refusal', async () => {
  const code = `
    const wrong = () => search('add', { limit: '3' }).catch(({ code, details }) => [code, details.issues.length])
    const branch = async (word, between) => [
      await tools.test.effect({ word }),
      await between(),
      await tools.test.effect({ word: word + word }),
    ]
    return Promise.all([branch('a', wrong), branch('b', async () => null)])`
  const first = memoryJournal()
  const whole = await run(code, first)
  assert.deepEqual([whole.status, (whole.output as unknown[][])[0]?.[1]], ['ok', ['INPUT_INVALID', 1]])
  const refused = first.asks.filter(({ kind }) => kind === 'read')
  assert.equal(refused.length, 1)
  assert.equal(first.entries.find(({ number }) => number === refused[0]?.number)?.outcome.kind, 'error')
  for (let cut = 0; cut <= first.entries.length; cut += 1) {
    const again = memoryJournal({ journaled: first.entries.slice(0, cut) })
    const { status, output, error } = await run(code, again)
    assert.deepEqual([status, output], ['ok', whole.output], `cut at ${cut}: ${error?.message}`)
    assert.equal(again.made.length, first.entries.length - cut)
  }
})

test('a call that the journal settles without making it is listed as a call of this attempt', async () => {
  const first = memoryJournal()
  await run("return await tools.test.effect({ word: 'a' })", first)
  const known = first.entries[0]?.outcome
  assert.ok(known?.kind === 'result')
  const settled = memoryJournal({ around: async (ask, make) => (ask.number === 1 ? known : make()) })
  const { program } = await run(
    "await tools.test.effect({ word: 'a' }); await tools.test.effect({ word: 'b' })",
    settled,
  )
  assert.deepEqual(settled.made, [2])
  assert.deepEqual(
    program?.calls.map(({ number, status, recalled }) => [number, status, recalled]),
    [
      [1, 'ok', undefined],
      [2, 'ok', undefined],
    ],
  )
})
