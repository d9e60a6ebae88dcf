import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { ProgramLanguage, Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'

const gantry = createExecutor()
after(() => gantry.close())

const run = (code: string, language: ProgramLanguage): Promise<Result> => gantry.code(code, { language })
const lists = (deep: number): string => `const a = ${'['.repeat(deep)}${']'.repeat(deep)}\nreturn 1`
const sum = (terms: number): string => `\nreturn ${Array(terms).fill('1').join('+')}`

function isTooDeep({ error }: Result, what: string): void {
  assert.deepEqual([error?.code, error?.effect], ['CODE_INVALID', 'none'], what)
  assert.match(error?.message ?? '', /nested too deeply/, what)
}

test('code nested too deeply for its compiler is refused with CODE_INVALID, and the next program runs', async () => {
  isTooDeep(await run(lists(2_000), 'typescript'), 'lists in TypeScript')
  assert.equal((await run('const one: number = 1\nreturn one', 'typescript')).output, 1)
  const types = `const a: ${'Array<'.repeat(5_000)}number${'>'.repeat(5_000)} = []\nreturn 1`
  isTooDeep(await run(types, 'typescript'), 'types')
  isTooDeep(await run(lists(20_000), 'javascript'), 'lists in JavaScript')
  assert.equal((await run('const one: number = 1\nreturn one', 'typescript')).output, 1)
})

sandboxTest('Python code nested too deeply for its compiler is refused with CODE_INVALID', async () => {
  isTooDeep(await run(sum(20_000), 'python'), 'a sum in Python')
  isTooDeep(await run(sum(20_000).replace('return', 'a ='), 'python'), 'a sum in Python without return')
})

test('a workflow with too many operators or members in a row is refused with its position', async () => {
  const rows = [sum(5_000), `\nx := {}\nreturn x${'["x"]'.repeat(15_000)}`, `\nx := {}\nreturn x${'.x'.repeat(15_000)}`]
  for (const row of rows) {
    const { error } = await run(row, 'workflow')
    assert.deepEqual([error?.code, error?.effect], ['CODE_INVALID', 'none'], row.slice(0, 40))
    assert.match(String(error?.details?.frame), /\^/)
  }
})
