import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { demoTools } from '@gantry/tools/internal/demo'

const gantry = createExecutor({ tools: demoTools() })
after(() => gantry.close())

const run = (code: string): Promise<Result> =>
  gantry.code(code, { language: 'javascript', limits: { wallMs: 5_000, toolCalls: 10_000 } })

/** Each makes more requests than the mailbox holds, and does not await their responses. */
const careless = [
  'const a = []; for (let i = 0; i < 300; i++) a.push(sleep(5)); await Promise.race(a); return 1',
  'for (let i = 0; i < 500; i++) search("x"); await tools.demo.add({ a: 1, b: 2 }); return 1',
  'const a = []; for (let i = 0; i < 500; i++) a.push(search("x", { limit: "3" }).catch(() => 0)); await a[0]; return 1',
  'const a = []; for (let i = 0; i < 500; i++) a.push(sleep(0)); await a[0]; throw new Error("careless")',
]

for (const code of careless) {
  test(`a program that does not await its responses does not block the next program: ${code}`, async () => {
    const expected = code.includes('throw') ? 'CODE_FAILED' : undefined
    for (let round = 0; round < 3; round += 1) {
      assert.equal((await run(code)).error?.code, expected)
      const { status, output, error } = await run('return await run("demo:add", { a: 1, b: 2 })')
      assert.deepEqual([status, output], ['ok', { result: 3 }], JSON.stringify(error))
    }
  })
}

test('a program that awaits more responses than the mailbox holds gets all of them', async () => {
  const { output, error } = await run(
    'return (await Promise.all(Array.from({ length: 2_000 }, (_, n) => run("demo:add", { a: n, b: 1 })))).at(-1)',
  )
  assert.deepEqual(output, { result: 2_000 }, JSON.stringify(error))
})
