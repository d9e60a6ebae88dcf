import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import type { Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import fc from 'fast-check'
import { defineTool } from '../tools/tool.ts'
import { type MemoryJournal, memoryJournal } from './journal.fixture.ts'

/** Random programs over tools, run to their end and then resumed at every entry of their journal. */

const word = { type: 'object', properties: { word: { type: 'string' }, turns: { type: 'integer' } } } as const
const effect = defineTool({
  namespace: 'test',
  name: 'effect',
  breaker: false,
  description: 'Takes a few turns of the event loop.',
  inputSchema: word,
  async run({ word = '', turns = 0 }) {
    for (let left = turns; left > 0; left -= 1) await turn()
    if (word.includes('x')) throw new Error(`no ${word}`)
    return word.length
  },
})
const gantry = createExecutor({ tools: [effect] })
after(() => gantry.close())

const run = (code: string, journal: MemoryJournal): Promise<Result> =>
  gantry.code(code, { language: 'javascript', program: journal })

const words = fc.stringMatching(/^[a-cx]{1,3}$/)
const call = fc
  .tuple(words, fc.nat(3))
  .map(
    ([word, turns]) =>
      `tools.test.effect({ word: ${JSON.stringify(word)}, turns: ${turns} }).catch(({ code }) => code)`,
  )
const pause = fc.constant('sleep(1).then(() => Date.now())')
const malformed = fc
  .constantFrom("search('add', { limit: '3' })", "describe('test:effect', { level: 3 })", "run('no:tool')")
  .map((asked) => `${asked}.catch(({ code }) => code)`)
const question = fc.oneof(
  { weight: 4, arbitrary: call },
  { weight: 1, arbitrary: pause },
  { weight: 2, arbitrary: malformed },
)
const branch = fc
  .array(question, { minLength: 2, maxLength: 4 })
  .map((all) => `(async () => [${all.map((one) => `await ${one}`).join(', ')}])()`)
const statement = fc.oneof(
  question.map((one) => `out.push(await ${one})`),
  fc.array(question, { minLength: 2, maxLength: 4 }).map((all) => `out.push(await Promise.all([${all.join(', ')}]))`),
  fc.array(question, { minLength: 2, maxLength: 3 }).map((all) => `out.push(await Promise.race([${all.join(', ')}]))`),
  fc.array(branch, { minLength: 2, maxLength: 3 }).map((all) => `out.push(await Promise.all([${all.join(', ')}]))`),
  fc
    .array(call, { minLength: 1, maxLength: 2 })
    .map((all) => `for (const make of [${all.map((one) => `() => ${one}`).join(', ')}]) out.push(await make())`),
  question.map((one) => `if (Math.random() < 0.5) out.push(await ${one}); else out.push(Date.now())`),
  question.map((one) => `void ${one}`),
  fc.tuple(question, call).map(([one, other]) => `void ${one}.then(() => ${other})`),
)
const programs = fc
  .array(statement, { minLength: 1, maxLength: 4 })
  .map((lines) => `const out = []\n${lines.join('\n')}\nout.push(Math.random())\nreturn out`)

test('a program with a complete journal has the same output and repeats no journaled call', async () => {
  await fc.assert(
    fc.asyncProperty(programs, fc.nat(1_000), async (code, seed) => {
      const first = memoryJournal({ seed })
      const whole = await run(code, first)
      assert.equal(whole.status, 'ok', JSON.stringify(whole.error))
      const again = memoryJournal({ seed, journaled: first.entries })
      const result = await run(code, again)
      assert.deepEqual(
        [result.status, result.output, again.made],
        ['ok', whole.output, again.made.filter((n) => isLeft(first, n))],
      )
    }),
    { numRuns: 30 },
  )
})

test('a program resumed at any entry of its journal completes, and no call is made twice', async () => {
  await fc.assert(
    fc.asyncProperty(programs, fc.nat(1_000), async (code, seed) => {
      const first = memoryJournal({ seed })
      await run(code, first)
      for (let cut = 0; cut < first.entries.length; cut += 1) {
        const journaled = first.entries.slice(0, cut)
        const again = memoryJournal({ seed, journaled })
        const result = await run(code, again)
        assert.equal(result.status, 'ok', `${code}\ncut at ${cut}: ${JSON.stringify(result.error)}`)
        assert.deepEqual(again.entries.slice(0, cut), journaled)
        const numbers = [...journaled.map(({ number }) => number), ...again.made]
        assert.equal(new Set(numbers).size, numbers.length, `${code}\ncut at ${cut}: ${numbers}`)
      }
    }),
    { numRuns: 12 },
  )
})

test('a program whose tools answer in call order has the same output wherever it is resumed', async () => {
  const orderly = programs.map((code) =>
    code
      .replaceAll(/turns: \d+/g, 'turns: 0')
      .replaceAll(/(sleep|search|describe|run)\([^)]*\)/g, 'run("test:effect")'),
  )
  await fc.assert(
    fc.asyncProperty(orderly, fc.nat(1_000), async (code, seed) => {
      const first = memoryJournal({ seed })
      const whole = await run(code, first)
      for (let cut = 0; cut <= first.entries.length; cut += 1) {
        const result = await run(code, memoryJournal({ seed, journaled: first.entries.slice(0, cut) }))
        assert.deepEqual([result.status, result.output], ['ok', whole.output], `${code}\ncut at ${cut}`)
      }
    }),
    { numRuns: 12 },
  )
})

/** A sleep that lost a race is requested again, because its outcome is not in the journal. */
function isLeft({ entries }: MemoryJournal, number: number): boolean {
  return !entries.some((entry) => entry.number === number)
}
