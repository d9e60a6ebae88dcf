import assert from 'node:assert/strict'
import type { Outcome, ProgramGateway, ProgramRequest, ProgramResponse } from '@gantry/core/internal/runtimes/runtime'
import type { RuntimeBench, RuntimeCase } from './runtime-case.ts'

type Language = 'python' | 'javascript'
type Answer = Omit<ProgramResponse, 'number'>

/** One program over tools in each language, and the assertions on its requests. */
interface GatewayProgram {
  readonly title: string
  readonly sources: { readonly [Each in Language]: string }
  /** The responses at a rest, in this order. */
  answers(asked: readonly ProgramRequest[], rest: number): readonly ProgramResponse[]
  readonly deterministic?: { readonly seed: number; readonly nowMs: number }
  holds(outcome: Outcome, rests: readonly (readonly ProgramRequest[])[]): void
}

const ok = (value: unknown, nowMs?: number): Answer => ({
  ok: true,
  text: JSON.stringify(value),
  ...(nowMs === undefined ? {} : { nowMs }),
})
const numbers = (rests: readonly (readonly ProgramRequest[])[]): number[][] =>
  rests.map((rest) => rest.map(({ number }) => number))

const gatewayPrograms: readonly GatewayProgram[] = [
  {
    title: 'makes sequential requests, and returns a value computed from the responses',
    sources: {
      python: 'a = await tools.math.add(a=1, b=2)\nreturn [a, await run("math:add", {"a": a, "b": 4})]',
      javascript: 'const a = await tools.math.add({ a: 1, b: 2 })\nreturn [a, await run("math:add", { a, b: 4 })]',
    },
    answers: (asked) =>
      asked.map(({ number, text }) => {
        const { args } = JSON.parse(text)
        return { number, ...ok(args.a + args.b) }
      }),
    holds({ value, exit, fault }, rests) {
      assert.deepEqual([value, exit, fault], [[3, 7], { code: 0 }, undefined])
      assert.deepEqual(numbers(rests), [[1], [2]])
      const texts = rests.flat().map(({ kind, text }) => [kind, JSON.parse(text)])
      assert.deepEqual(texts[1], ['call', { tool: 'math:add', args: { a: 3, b: 4 } }])
    },
  },
  {
    title: 'makes parallel requests, reads one response at a time in the order sent, and comes to rest in between',
    sources: {
      python: `order = []
async def one(n):
    order.append(await run('x:y', {'n': n}))
await asyncio.gather(one(1), one(2), one(3))
return order`,
      javascript: `const order = []
await Promise.all([1, 2, 3].map(async (n) => order.push(await run('x:y', { n }))))
return order`,
    },
    answers: (_asked, rest) => {
      if (rest === 1) return [{ number: 2, ...ok('two') }]
      if (rest !== 2) return []
      return [
        { number: 3, ...ok('three') },
        { number: 1, ...ok('one') },
      ]
    },
    holds({ value }, rests) {
      assert.deepEqual(value, ['two', 'three', 'one'])
      assert.deepEqual(numbers(rests), [[1, 2, 3], []])
    },
  },
  {
    title: 'catches a tool error by its code',
    sources: {
      python: `try:
    await run('x:y')
except ToolError as error:
    return [error.code, error.message, error.retryable, error.details]`,
      javascript: `try { await run('x:y') } catch (error) { return [error.code, error.message, error.retryable, error.details] }`,
    },
    answers: ([asked]) => {
      const error = { code: 'RATE_LIMITED', message: 'slower', retryable: true, details: { retryAfterMs: 5 } }
      return asked === undefined ? [] : [{ number: asked.number, ok: false, text: JSON.stringify(error) }]
    },
    holds({ value }) {
      assert.deepEqual(value, ['RATE_LIMITED', 'slower', true, { retryAfterMs: 5 }])
    },
  },
  {
    title: 'that does not catch a tool error fails at the line of its call',
    sources: { python: "x = 1\n\nawait run('x:y')", javascript: "const x = 1\n\nawait run('x:y')" },
    answers: ([asked]) => {
      const error = { code: 'RATE_LIMITED', message: 'slower', retryable: true }
      return asked === undefined ? [] : [{ number: asked.number, ok: false, text: JSON.stringify(error) }]
    },
    holds({ value, fault }) {
      assert.deepEqual([value, fault?.kind, fault?.name, fault?.message], [undefined, 'run', 'ToolError', 'slower'])
      assert.equal(fault?.line, 3)
      assert.deepEqual(fault?.error, { code: 'RATE_LIMITED', message: 'slower', retryable: true })
    },
  },
  {
    title: 'that does not compile reports the line, and makes no request',
    sources: { python: "await run('x:y')\nif x\n  pass", javascript: "await run('x:y')\nconst = 1" },
    answers: () => [],
    holds({ value, fault }, rests) {
      assert.deepEqual([value, fault?.kind, fault?.name, fault?.line], [undefined, 'compile', 'SyntaxError', 2])
      assert.deepEqual(rests, [])
    },
  },
  {
    title: 'that returns a value that is not JSON fails',
    sources: { python: 'return {1, 2}', javascript: 'return new Set([1, 2])' },
    answers: () => [],
    holds({ value, fault }) {
      assert.deepEqual([value, fault?.kind], [undefined, 'run'])
      assert.match(fault?.message ?? '', /set/i)
    },
  },
  {
    title: 'receives the responses to its calls before it ends, though it does not await them',
    sources: {
      python: "run('x:y', {'n': 1})\nawait asyncio.sleep(0)\nprint('at the end')",
      javascript: "run('x:y', { n: 1 })\nprint('at the end')",
    },
    answers: (asked) => asked.map(({ number }) => ({ number, ...ok(1) })),
    holds({ value, stdout }, rests) {
      assert.deepEqual([value, Buffer.from(stdout.bytes).toString()], [null, 'at the end\n'])
      assert.deepEqual(numbers(rests)[0], [1])
    },
  },
  {
    title: 'under determinism requests its sleeps, and its clock shows the time of the response',
    sources: {
      python: `import time
before = time.time()
await sleep(2500)
return [before, time.time()]`,
      javascript: `const before = Date.now() / 1000
await new Promise((resolve) => setTimeout(resolve, 2500))
return [before, Date.now() / 1000]`,
    },
    deterministic: { seed: 1, nowMs: 5_000 },
    answers: (asked) => asked.map(({ number }) => ({ number, ...ok(null, 60_000) })),
    holds({ value }, rests) {
      assert.deepEqual(value, [5, 60])
      assert.deepEqual(
        rests.flat().map(({ kind, text }) => [kind, JSON.parse(text)]),
        [['sleep', { ms: 2_500 }]],
      )
    },
  },
]

/** Programs over tools behave alike in every language and runtime that has them. */
export const gatewayCases: readonly RuntimeCase[] = (['python', 'javascript'] as const).flatMap((language) =>
  gatewayPrograms.map((program) => ({
    title: `a program over tools in ${language} ${program.title}`,
    needs: [language, `${language} over tools`],
    check: (bench) => hold(bench, language, program),
  })),
)

async function hold({ run }: RuntimeBench, language: Language, program: GatewayProgram): Promise<void> {
  const { sources, answers, deterministic, holds } = program
  const rests: (readonly ProgramRequest[])[] = []
  const gateway: ProgramGateway = {
    ask(asked, answer) {
      rests.push(asked)
      for (const given of answers(asked, rests.length)) answer(given)
    },
  }
  const job = { program: { kind: 'code', language, code: sources[language] }, gateway } as const
  const outcome = await run(job, {}, { gateway: true, ...(deterministic === undefined ? {} : { deterministic }) })
  holds(outcome, rests)
}
