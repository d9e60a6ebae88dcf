import { type ChainStep, createExecutor } from 'gantry'
import { add, addTools } from './add-tool.ts'
import type { Setup } from './measure.ts'

export const stepCount = 10

/** Ten additions, each of the result before it and of one further back. */
const steps: readonly ChainStep[] = Array.from({ length: stepCount }, (_, index) => ({
  id: `s${index}`,
  tool: 'math:add',
  args:
    index === 0
      ? { a: '{{input.n}}', b: 1 }
      : { a: '{{prev.result}}', b: `{{steps.s${Math.max(0, index - 2)}.output.result}}` },
}))

type Adder = (sum: { readonly a: number; readonly b: number }) => Promise<number>

/** The same ten additions by hand. */
async function byHand(n: number, call: Adder): Promise<number> {
  const results = [await call({ a: n, b: 1 })]
  for (let index = 1; index < stepCount; index += 1) {
    results.push(await call({ a: results[index - 1] ?? 0, b: results[Math.max(0, index - 2)] ?? 0 }))
  }
  return results.at(-1) ?? Number.NaN
}

export const subjects: { readonly [name: string]: Setup } = {
  bare: () => (n) => byHand(n, async (sum) => (await add(sum)).result),
  runs: () => {
    const gantry = createExecutor({ tools: addTools() })
    return (n) => byHand(n, async (sum) => ((await gantry.run('math:add', sum)).output as { result: number }).result)
  },
  chain: async () => {
    const gantry = createExecutor({ tools: addTools() })
    const run = (n: number) => gantry.chain(steps, { input: { n } })
    const { output } = await run(1)
    const expected = await byHand(1, async (sum) => (await add(sum)).result)
    if ((output as { result?: unknown } | null)?.result !== expected) throw new Error('the chain gave another result')
    return run
  },
}
