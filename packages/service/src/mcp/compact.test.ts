import assert from 'node:assert/strict'
import { test } from 'node:test'
import { executorHost } from '@gantry/mcp/internal/server/host'
import { serveOverStdio } from '@gantry/mcp/internal/server/stdio'
import { createExecutor, demoTools } from '@gantry/tools'
import { owner } from '../http/http.fixture.ts'
import { type Answered, openMcp } from './mcp.fixture.ts'
import { lineClient } from './stdio.fixture.ts'

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

test('invalid arguments are refused with their paths, and a tool outside the compact surface is unknown', async (t) => {
  const { call } = await openMcp(t, { surface: 'compact' })
  const wrong = await call('search_tools', { limit: 'many', other: 1 })
  assert.equal(wrong.result.isError, true)
  assert.match(wrong.result.content[0].text, /\/query is missing; \/limit must be integer; \/other is not known/)
  assert.equal((await call('demo__add', { a: 1, b: 2 })).error?.code, -32_602)
})

test('a tool that does not exist is an error for the model on every path, and only a wrong MCP name is one for the client', async (t) => {
  const { call, session } = await openMcp(t, { surface: 'compact' })
  const open = await session()
  const executor = createExecutor({ tools: demoTools() })
  t.after(() => executor.close())
  const local = lineClient(t, (ends) =>
    serveOverStdio({ host: executorHost(executor), version: '1.0.0', identity: owner, surface: 'compact', ...ends }),
  )
  await local.open()
  const ways: readonly ((name: string, args: object) => Promise<Answered>)[] = [
    call,
    (name, args) => call(name, args, { meta: { progressToken: 1 } }),
    (name, args) => open.request('tools/call', { name, arguments: args }),
    (name, args) => local.request('tools/call', { name, arguments: args }),
  ]
  const near = 'demo:ad'
  for (const ask of ways) {
    for (const name of ['run_tool', 'describe_tool', 'list_tool_examples']) {
      const none = (await ask(name, { tool: near })).result
      assert.equal(none?.isError, true, name)
      assert.equal(none._meta['gantry/error'].code, 'TOOL_NOT_FOUND', name)
      assert.match(none.content[0].text, /TOOL_NOT_FOUND.*demo:add/s, name)
      const odd = (await ask(name, { tool: 'no id at all' })).result
      assert.deepEqual([odd?.isError, odd?._meta['gantry/error'].code], [true, 'TOOL_ID_INVALID'], name)
    }
    const chain = (await ask('run_chain', { steps: [{ id: 'a', tool: near, args: {} }] })).result
    assert.equal(chain?.isError, true)
    assert.equal((await ask('run_tools', { tool: near })).error?.code, -32_602)
  }
})
