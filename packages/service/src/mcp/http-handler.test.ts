import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { sampleTool } from '../../test/sample-tool.fixture.ts'
import { fakeService } from '../http/service.fixture.ts'
import { openMcp } from './mcp.fixture.ts'

/** Waits until the test lets it go on, and records what became of it. */
function waitingTool() {
  const ended = Promise.withResolvers<string>()
  const begun = Promise.withResolvers<void>()
  const tool = sampleTool({
    name: 'wait',
    description: 'Waits to be cancelled.',
    async run(_args, { signal }) {
      begun.resolve()
      await delay(30_000, undefined, { signal }).catch(() => undefined)
      ended.resolve(signal.aborted ? 'cancelled' : 'done')
      return 'waited'
    },
  })
  return { tool, ended: ended.promise, begun: begun.promise }
}

test('tools are listed with valid names, their schemas, and hints of their effect', async (t) => {
  const { modern, session } = await openMcp(t)
  const { messages } = await modern('tools/list')
  const tools = messages[0]?.result.tools
  assert.deepEqual(
    tools.map((tool: { name: string }) => tool.name),
    ['demo__add', 'demo__countdown', 'demo__echo', 'demo__fail', 'demo__sleep'],
  )
  assert.deepEqual(tools[0].annotations, { readOnlyHint: true })
  assert.equal(tools[0].inputSchema.required.length, 2)
  assert.equal(tools[0].outputSchema.type, 'object')
  const old = await (await session()).request('tools/list')
  assert.equal(old.result.tools.length, 5)
  assert.deepEqual(old.result.tools[0].execution, { taskSupport: 'optional' })
})

test('a list has several pages, and a malformed cursor is refused', async (t) => {
  const many = Array.from({ length: 230 }, (_, at) =>
    sampleTool({
      namespace: 'many',
      name: `t${at}`,
      description: 'One of many.',
      run: () => at,
    }),
  )
  const { modern } = await openMcp(t, {}, fakeService(many))
  const names: string[] = []
  let cursor: string | undefined
  do {
    const { result } = (await modern('tools/list', cursor === undefined ? {} : { cursor })).messages[0] ?? {}
    names.push(...result.tools.map((tool: { name: string }) => tool.name))
    cursor = result.nextCursor
  } while (cursor !== undefined)
  assert.equal(new Set(names).size, 235)
  assert.equal((await modern('tools/list', { cursor: 'x' })).messages[0]?.error?.code, -32_602)
})

test('a call returns text and structured output, and its durable id', async (t) => {
  const { call, session } = await openMcp(t)
  const { result } = await call('demo__add', { a: 1, b: 2 })
  assert.deepEqual(result.structuredContent, { result: 3 })
  assert.deepEqual(result.content, [{ type: 'text', text: '{"result":3}' }])
  assert.equal(result.resultType, 'complete')
  assert.match(result._meta['gantry/callId'], /./)
  const old = await (await session()).request('tools/call', { name: 'demo__add', arguments: { a: 1, b: 2 } })
  assert.deepEqual(old.result.structuredContent, { result: 3 })
})

test('a direct call returns what the SDK returns', async (t) => {
  const { modern } = await openMcp(t)
  const calls: [string, object][] = [
    ['demo__add', { a: 1, b: 2 }],
    ['demo__add', { a: 'one' }],
    ['demo__echo', { value: ['ü', null, { deep: 1 }] }],
    ['demo__fail', { message: 'It broke.' }],
    ['demo__nothing', {}],
    ['nothing', {}],
  ]
  for (const [name, args] of calls) {
    const { response, messages: own } = await modern('tools/call', { name, arguments: args })
    const here = own[0]
    // A client that wants log lines is served by the SDK.
    const meta = { 'io.modelcontextprotocol/logLevel': 'emergency' }
    const { messages, response: other } = await modern('tools/call', { name, arguments: args }, { meta })
    const there = messages.at(-1)
    assert.equal(response.status, other.status)
    const plain = (answer: typeof there) =>
      JSON.stringify({ ...answer, id: 0 }, (key, value) => (key === 'gantry/callId' ? 'id' : value))
    assert.deepEqual(JSON.parse(plain(here)), JSON.parse(plain(there)), name)
  }
})

test('a failure of a tool is a result with its code, and an unknown tool a protocol error', async (t) => {
  const { call } = await openMcp(t)
  const failed = await call('demo__fail', { message: 'It broke.' })
  assert.equal(failed.result.isError, true)
  assert.match(failed.result.content[0].text, /BACKEND_FAILED.*It broke/)
  assert.equal(failed.result._meta['gantry/error'].code, 'BACKEND_FAILED')
  const wrong = await call('demo__add', { a: 1 })
  assert.match(wrong.result.content[0].text, /INPUT_INVALID/)
  const absent = await call('demo__nothing')
  assert.equal(absent.error?.code, -32_602)
  assert.deepEqual(absent.error?.data, { code: 'TOOL_NOT_FOUND' })
})

test('tools can be called by id and version too, and names with dots resolve', async (t) => {
  const odd = sampleTool({
    namespace: 'odd.one',
    name: 'a.b',
    description: 'Has dots.',
    run: () => 'odd',
  })
  const { call, modern } = await openMcp(t, {}, fakeService([odd]))
  assert.deepEqual((await call('demo:add:1.0.0', { a: 1, b: 2 })).result.structuredContent, { result: 3 })
  const names = (await modern('tools/list')).messages[0]?.result.tools.map((tool: { name: string }) => tool.name)
  const name = names.find((one: string) => one.startsWith('odd'))
  assert.match(name, /^[A-Za-z0-9_-]{1,64}$/)
  assert.equal((await call(name)).result.content[0].text, 'odd')
})

test('within one namespace tools have their plain names, and others are not found', async (t) => {
  const other = sampleTool({
    namespace: 'other',
    name: 'secret',
    description: 'Elsewhere.',
    run: () => 1,
  })
  const { call, modern } = await openMcp(t, { namespace: 'demo' }, fakeService([other]))
  const tools = (await modern('tools/list')).messages[0]?.result.tools
  assert.deepEqual(tools.map((tool: { name: string }) => tool.name).slice(0, 2), ['add', 'countdown'])
  assert.deepEqual((await call('add', { a: 1, b: 2 })).result.structuredContent, { result: 3 })
  assert.equal((await call('other:secret')).error?.code, -32_602)
})

test('within one namespace a name with a version calls only the tool of that version', async (t) => {
  const other = sampleTool({
    namespace: 'add',
    name: '1.0.0',
    description: 'Elsewhere.',
    run: () => 'elsewhere',
  })
  const service = fakeService([other])
  const { call, session } = await openMcp(t, { namespace: 'demo' }, service)
  assert.deepEqual((await call('add:1.0.0', { a: 1, b: 2 })).result.structuredContent, { result: 3 })
  const params = { name: 'add:^1.0.0', arguments: { a: 1, b: 2 } }
  const old = await (await session()).request('tools/call', params)
  assert.deepEqual(old.result.structuredContent, { result: 3 })
  assert.deepEqual(
    service.submitted.map(({ tool }) => tool),
    ['demo:add:1.0.0', 'demo:add:^1.0.0'],
  )
})

test('progress is sent to clients that request it, in both protocol eras', async (t) => {
  const { modern, session } = await openMcp(t)
  const params = { name: 'demo__countdown', arguments: { from: 3, delayMs: 1 } }
  const { messages } = await modern('tools/call', params, { meta: { progressToken: 'p' } })
  const updates = messages.filter(({ method }) => method === 'notifications/progress')
  assert.deepEqual(updates[0]?.params, { progressToken: 'p', progress: 0, total: 3, message: '3 left' })
  assert.equal(messages.at(-1)?.result.isError, undefined)
  const open = await session()
  const old = await open.send({ id: 1, method: 'tools/call', params: { ...params, _meta: { progressToken: 7 } } })
  assert.ok(old.messages.some(({ params }) => params?.progressToken === 7))
})

test('log lines are sent to clients that set a level', async (t) => {
  const logs = sampleTool({
    name: 'logs',
    description: 'Logs.',
    run(_args, { log }) {
      log('debug', 'fine')
      log('warn', 'careful', { n: 1 })
      return 1
    },
  })
  const { modern, session } = await openMcp(t, {}, fakeService([logs]))
  const params = { name: 'test__logs', arguments: {} }
  const meta = { 'io.modelcontextprotocol/logLevel': 'info' }
  const logged = (await modern('tools/call', params, { meta })).messages.filter((one) => one.method !== undefined)
  assert.deepEqual(
    logged.map((one) => one.params.data),
    [{ message: 'careful', data: { n: 1 } }],
  )
  const open = await session()
  const quiet = await open.send({ id: 1, method: 'tools/call', params })
  assert.equal(quiet.messages.length, 1)
  await open.request('logging/setLevel', { level: 'debug' })
  const loud = await open.send({ id: 2, method: 'tools/call', params })
  assert.equal(loud.messages.length, 3)
})

test('a client that disconnects cancels its call', async (t) => {
  for (const meta of [{}, { progressToken: 1 }]) {
    const { tool, ended, begun } = waitingTool()
    const { modern } = await openMcp(t, {}, fakeService([tool]))
    const leave = new AbortController()
    const gone = modern('tools/call', { name: 'test__wait', arguments: {} }, { meta, signal: leave.signal })
    await begun
    leave.abort()
    await assert.rejects(gone)
    assert.equal(await ended, 'cancelled')
  }
})

test('notifications/cancelled cancels a call of a session', async (t) => {
  const { tool, ended, begun } = waitingTool()
  const { session } = await openMcp(t, {}, fakeService([tool]))
  const open = await session()
  const leave = new AbortController()
  const params = { name: 'test__wait', arguments: {} }
  const waiting = open.send({ id: 'w', method: 'tools/call', params }, { signal: leave.signal })
  await begun
  await open.send({ method: 'notifications/cancelled', params: { requestId: 'w' } })
  assert.equal(await ended, 'cancelled')
  // A request that was cancelled is not answered.
  leave.abort()
  await assert.rejects(waiting)
})

test('the server negotiates an extension of 2026-07-28, and sends its name', async (t) => {
  const { modern } = await openMcp(t)
  const { result } = (await modern('server/discover')).messages[0] ?? {}
  assert.deepEqual(result.supportedVersions, ['2026-07-28'])
  assert.deepEqual(result.capabilities.extensions, { 'io.modelcontextprotocol/tasks': {} })
  assert.equal(result._meta['io.modelcontextprotocol/serverInfo'].name, 'gantry')
})
