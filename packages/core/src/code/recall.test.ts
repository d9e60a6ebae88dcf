import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { memoryArtifacts } from '../artifacts/memory.ts'
import type { JournaledOutcome } from '../backends/program-journal.ts'
import { createStepSlots } from '../chain/context.ts'
import type { ProgramResponse } from '../runtimes/runtime.ts'
import { defineTool } from '../tools/tool.ts'
import { createGatewaySession } from './gateway-session.ts'
import { type MemoryJournal, memoryJournal } from './journal.fixture.ts'

/** A resumed program receives its journaled outcomes in the order of the journal, whatever their size. */

const read = defineTool({
  namespace: 'test',
  name: 'read',
  description: 'Reads something.',
  inputSchema: { type: 'object', properties: { id: { type: 'integer' } } },
  run: () => ({ text: 'little' }),
})
const write = defineTool({
  namespace: 'test',
  name: 'write',
  description: 'Takes a text.',
  inputSchema: { type: 'object', properties: { text: { type: 'string' } } },
  run: ({ text }) => String(text).length,
})
const gantry = createExecutor({ tools: [read, write], artifacts: memoryArtifacts() })
after(() => gantry.close())

const run = (code: string, journal: MemoryJournal, language: 'javascript' | 'python' = 'javascript'): Promise<Result> =>
  gantry.code(code, { language, program: journal })

/** The journaled outcomes of a program, by the numbers of its requests. */
async function journalOf(code: string, language: 'javascript' | 'python' = 'javascript'): Promise<JournaledOutcome[]> {
  const journal = memoryJournal()
  const { status, error } = await run(code, journal, language)
  assert.equal(status, 'ok', JSON.stringify(error))
  return journal.entries.toSorted((one, other) => one.number - other.number)
}

/** The same outcomes, each with a large text for its output. */
function enlarged(journaled: readonly JournaledOutcome[], characters: number): JournaledOutcome[] {
  const text = 'x'.repeat(characters)
  return journaled.map((entry) => {
    assert.ok(entry.outcome.kind === 'result')
    return { ...entry, outcome: { kind: 'result', result: { ...entry.outcome.result, output: { text } } } }
  })
}

const reads = {
  javascript: `const sizes = await Promise.all(Array.from({ length: 240 }, async (_, id) => (await tools.test.read({ id })).text.length))`,
  python: `async def size(id):
    return len((await tools.test.read(id=id))['text'])
sizes = await asyncio.gather(*(size(id) for id in range(240)))`,
}

test('a program resumes with more journaled outcomes for one batch of requests than may be in flight', async () => {
  const journaled = enlarged(await journalOf(reads.javascript), 500_000)
  const code = `${reads.javascript}\nawait sleep(1)\nreturn sizes.reduce((sum, size) => sum + size, 0)`
  const journal = memoryJournal({ journaled })
  const { output, error } = await run(code, journal)
  assert.deepEqual([output, journal.made], [120_000_000, [241]], JSON.stringify(error))
})

sandboxTest(
  'a Python program resumes with more journaled outcomes for one batch of requests than may be in flight',
  async () => {
    const journaled = enlarged(await journalOf(reads.python, 'python'), 500_000)
    const journal = memoryJournal({ journaled })
    const { output, error } = await run(`${reads.python}\nawait sleep(1)\nreturn sum(sizes)`, journal, 'python')
    assert.deepEqual([output, journal.made], [120_000_000, [241]], JSON.stringify(error))
  },
)

test('the limit of bytes in flight applies separately to the requests after each replayed response', async () => {
  const ids = 'Array.from({ length: 80 }, (_, id) => id)'
  const journaled = await journalOf(`await Promise.all(${ids}.map((id) => tools.test.read({ id })))`)
  const code = `
    const copy = async (id) => {
      await tools.test.read({ id })
      return await tools.test.write({ text: 'x'.repeat(1_000_000) })
    }
    return (await Promise.all(${ids}.map(copy))).reduce((sum, size) => sum + size, 0)`
  const { output, error } = await run(code, memoryJournal({ journaled }))
  assert.equal(output, 80_000_000, JSON.stringify(error))
})

/** Programs that end without awaiting a request that was settled after their last response. */
const careless = {
  javascript: (asked: string) => `
    const b = tools.test.read({ id: 2 })
    await tools.test.read({ id: 1 })
    void ${asked}
    return (await b).text`,
  python: (asked: string) => `
b = tools.test.read(id=2)
await tools.test.read(id=1)
asyncio.ensure_future(${asked})
return (await b)['text']`,
}
const all = {
  javascript: (asked: string) =>
    `await Promise.all([tools.test.read({ id: 2 }), tools.test.read({ id: 1 }), ${asked}])`,
  python: (asked: string) => `await asyncio.gather(tools.test.read(id=2), tools.test.read(id=1), ${asked})`,
}
const left = {
  javascript: ["artifacts.put('log', 'x')", "search('x')", 'sleep(5)'],
  python: ["artifacts.put('log', 'x')", "search('x')", 'sleep(5)'],
}

async function endsAsBefore(language: 'javascript' | 'python'): Promise<void> {
  for (const asked of left[language]) {
    const [b, a, last] = await journalOf(all[language](asked), language)
    assert.ok(a && b && last)
    for (const journaled of [
      [a, b, last],
      [a, b],
      [a, last, b],
    ]) {
      const journal = memoryJournal({ journaled })
      const { output, error, artifacts } = await run(careless[language](asked), journal, language)
      assert.deepEqual([output, journal.made], ['little', []], `${asked}: ${JSON.stringify(error)}`)
      // A stored file is in the result, whether or not the program received the response.
      const files: string[] = asked.includes('put') && journaled.includes(last) ? ['log'] : []
      assert.deepEqual(
        artifacts.map(({ name }) => name),
        files,
      )
    }
  }
}

test('a program that ends without awaiting the last journaled outcome has not diverged', () =>
  endsAsBefore('javascript'))

sandboxTest('a Python program that ends without awaiting the last journaled outcome has not diverged', () =>
  endsAsBefore('python'),
)

test('a program that fails in the middle of its replay fails with its own error', async () => {
  const [a, b] = await journalOf('await tools.test.read({ id: 1 }); await tools.test.read({ id: 2 })')
  assert.ok(a && b)
  const code = `
    const both = [tools.test.read({ id: 1 }).then(() => { throw new Error('enough') }), tools.test.read({ id: 2 })]
    return await Promise.all(both)`
  const { error } = await run(code, memoryJournal({ journaled: [a, b] }))
  assert.deepEqual([error?.code, error?.message.includes('enough')], ['CODE_FAILED', true])
})

test('a request that is still pending when the program ends is not started', async () => {
  const [call] = await journalOf('await tools.test.read({ id: 1 })')
  assert.ok(call)
  const journal = memoryJournal({ journaled: [call] })
  const { output, error } = await run(
    'return (await Promise.race([tools.test.read({ id: 1 }), sleep(60_000)])).text',
    journal,
  )
  assert.deepEqual([output, journal.asks], ['little', []], JSON.stringify(error))
})

test('a quiescence report from before a response does not apply to the requests after it', async () => {
  const sleeps = (from: number, to: number) =>
    Array.from({ length: to - from + 1 }, (_, index) => ({ number: from + index, kind: 'sleep', text: '{"ms":1}' }))
  const opened = (journal: MemoryJournal) => {
    const answered: number[] = []
    const stopped: unknown[] = []
    const { gateway } = createGatewaySession({
      journal,
      signal: new AbortController().signal,
      slots: createStepSlots(1),
      admit: () => undefined,
      perform: async () => ({ kind: 'value', value: null }),
      undone: () => undefined,
      stop: (error) => stopped.push(error),
    })
    const answer = ({ number }: ProgramResponse): void => void answered.push(number)
    return { answered, stopped, ask: (from: number, to: number) => gateway.ask(sleeps(from, to), answer) }
  }
  const first = memoryJournal()
  opened(first).ask(1, 301)
  while (first.entries.length < 301) await turn()
  const journaled = first.entries.filter(({ number }) => number === 1 || number === 301)
  const { ask, answered, stopped } = opened(memoryJournal({ journaled }))
  // The first batch takes more than one turn, and the program reports quiescence again meanwhile.
  ask(1, 300)
  ask(1, 0)
  for (let left = 10; left > 0; left -= 1) await turn()
  assert.deepEqual([answered, stopped], [[1], []])
  ask(301, 301)
  assert.deepEqual([answered, stopped], [[1, 301], []])
})
