import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Result } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { defineTool } from '../tools/tool.ts'

const labels: unknown[] = []
const number = { type: 'integer' } as const
let attempts = 0
const gantry = createExecutor({
  tools: [
    defineTool({
      namespace: 'github',
      name: 'create_issue',
      description: 'Creates an issue.',
      inputSchema: { type: 'object', properties: { title: { type: 'string' } }, required: ['title'] },
      run: () => ({ number: 7 }),
    }),
    defineTool({
      namespace: 'github',
      name: 'add_labels',
      description: 'Adds labels to an issue.',
      inputSchema: { type: 'object', properties: { issue: number, labels: { type: 'array' } }, required: ['issue'] },
      run: (args) => {
        labels.push(args)
        return null
      },
    }),
    defineTool({
      namespace: 'test',
      name: 'flaky',
      description: 'Fails twice.',
      inputSchema: { type: 'object' },
      run: () => {
        attempts += 1
        if (attempts < 3) throw new Error('not yet')
        return attempts
      },
    }),
  ],
})
after(() => gantry.close())

const workflow = (code: string): Promise<Result> => gantry.code(code, { language: 'workflow' })

test('the example workflow of two dependent calls runs', async () => {
  const result = await workflow(
    '\nissue := run("github:create_issue", {title: "Bug fix"})\nrun("github:add_labels", {issue: issue.number, labels: ["bug"]})\n',
  )
  assert.deepEqual([result.status, result.output], ['ok', null], JSON.stringify(result.error))
  assert.deepEqual(labels, [{ issue: 7, labels: ['bug'] }])
  assert.deepEqual(
    [result.program?.language, result.program?.calls.map(({ tool }) => tool)],
    ['workflow', ['github:create_issue', 'github:add_labels']],
  )
})

test('conditions, loops, retries, parallel calls and search work in a workflow', async () => {
  const result = await workflow(`
found := search("labels", {limit: 1})
total := 0
for i, title in ["a", "b", "c"] {
  if i == 1 { continue }
  total := total + run("github:create_issue", {title: title}).number
}
both := all(run("github:create_issue", {title: "x"}), run("github:create_issue", {title: "y"}))
retry(5) { n := run("test:flaky") }
print("n", n)
return {total: total, id: found[0].id, both: len(both), n: n}`)
  assert.deepEqual(result.output, { total: 14, id: 'github:add_labels', both: 2, n: 3 }, JSON.stringify(result.error))
  assert.equal(result.program?.printed, 'n 3\n')
})

test('compile and run errors have the line and column of the workflow', async () => {
  const wrong = await workflow('a := 1\nb := a +')
  assert.deepEqual(
    [wrong.error?.code, wrong.error?.details?.line, wrong.error?.details?.column],
    ['CODE_INVALID', 2, 9],
  )
  const failed = await workflow('a := 1\n\nb := [a,\n  run("github:create_issue", {title: a})]')
  assert.deepEqual(
    [failed.error?.code, failed.error?.details?.line, failed.error?.details?.column],
    ['CODE_FAILED', 4, 3],
  )
  assert.match(String(failed.error?.details?.frame), /> 4 \| {3}run\(/)
  assert.equal(failed.error?.details?.stack, undefined)
  const member = await workflow('a := null\nreturn 1 + a.b')
  assert.deepEqual([member.error?.details?.line, member.error?.details?.column], [2, 12])
})
