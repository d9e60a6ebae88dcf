import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openMcp } from './mcp.fixture.ts'

test('seven tools find, describe and run all others', async (t) => {
  const { modern, call } = await openMcp(t, { surface: 'compact' })
  const tools = (await modern('tools/list')).messages[0]?.result.tools as { name: string }[]
  assert.equal(tools.length, 7)
  const found = (await call('search_tools', { query: 'add numbers', limit: 1 })).result.structuredContent.tools
  assert.equal(found[0].id, 'demo:add')
  const doc = (await call('describe_tool', { tool: 'demo:add' })).result.structuredContent
  assert.equal(doc.inputSchema.required.length, 2)
  assert.deepEqual((await call('list_namespaces')).result.structuredContent, {
    namespaces: [{ namespace: 'demo', tools: 5 }],
  })
  const examples = (await call('list_tool_examples', { tool: 'demo:add' })).result.structuredContent.examples
  assert.deepEqual(examples[0].args, { a: 5, b: 3 })
  const run = await call('run_tool', { tool: 'demo:add', args: { a: 1, b: 2 } })
  assert.deepEqual(run.result.structuredContent, { result: 3 })
  const steps = [
    { id: 'a', tool: 'demo:add', args: { a: 1, b: 2 } },
    { id: 'b', tool: 'demo:echo', args: { value: '{{steps.a.output.result}}' } },
  ]
  const chain = (await call('run_chain', { steps })).result.structuredContent
  assert.deepEqual(chain, {
    output: { value: 3 },
    steps: [
      { id: 'a', state: 'ok' },
      { id: 'b', state: 'ok' },
    ],
  })
})

test('arguments that do not fit are told where they do not, and a tool that is not there is none', async (t) => {
  const { call } = await openMcp(t, { surface: 'compact' })
  const wrong = await call('search_tools', { limit: 'many', other: 1 })
  assert.equal(wrong.result.isError, true)
  assert.match(wrong.result.content[0].text, /\/query is missing; \/limit must be integer; \/other is not known/)
  assert.equal((await call('demo__add', { a: 1, b: 2 })).error?.code, -32_602)
  assert.equal((await call('run_tool', { tool: 'demo:none' })).error?.code, -32_602)
})
