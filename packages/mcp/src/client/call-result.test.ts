import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Client, InMemoryTransport, type JSONRPCMessage, specTypeSchemas } from '@modelcontextprotocol/client'
import fc from 'fast-check'
import { callResultSchema } from './connection.ts'

/** A client of a server before 2026-07-28, and how it would have that server answer the next call. */
async function legacyClient() {
  const [near, far] = InMemoryTransport.createLinkedPair()
  let answer: unknown
  const prepare = (next: unknown): void => {
    answer = next
  }
  far.onmessage = (message: JSONRPCMessage) => {
    if (!('id' in message) || !('method' in message)) return
    const shaken = {
      protocolVersion: '2025-11-25',
      capabilities: { tools: {} },
      serverInfo: { name: 's', version: '1' },
    }
    const result = (message.method === 'initialize' ? shaken : answer) as { [key: string]: unknown }
    void far.send({ jsonrpc: '2.0', id: message.id as number, result })
  }
  await far.start()
  const client = new Client({ name: 'test', version: '1.0.0' })
  await client.connect(near)
  assert.equal(client.getProtocolEra(), 'legacy')
  return { client, prepare }
}

const text = { type: 'text', text: 'hello' }
const absent = Symbol('absent')
const members = {
  content: [
    absent,
    ...[null, 'text', {}, [], [text], [{ ...text, more: 1 }], [{ type: 'text' }], [{ type: 'film', text: 'x' }]],
    ...[[{ type: 'image', data: '!', mimeType: 'a/b' }], [{ type: 'image', data: 'aGk=', mimeType: 'a/b' }], [7]],
    [{ type: 'resource', resource: { uri: 'a:b', text: 'x' } }],
  ],
  structuredContent: [absent, null, 5, 'text', [], [1], {}, { a: { b: [1] } }],
  isError: [absent, true, false, 'yes', null],
  // One that is no object at all does not even pass for a message.
  _meta: [
    absent,
    ...[{}, { any: 'thing' }, { progressToken: 'a' }, { progressToken: {} }],
    ...[{ 'io.modelcontextprotocol/related-task': { taskId: 't' } }, { 'io.modelcontextprotocol/related-task': 5 }],
    ...[
      { 'io.modelcontextprotocol/serverInfo': 5 },
      { 'io.modelcontextprotocol/serverInfo': { name: 'n', version: '1' } },
    ],
  ],
  task: [absent, absent, absent, {}],
  inputRequests: [absent, absent, absent, {}],
  requestState: [absent, absent, absent, 'x'],
  resultType: [absent, absent, 'complete', 'input_required'],
  other: [absent, 1],
}

test('callResultSchema accepts and refuses the same results as the SDK, with the same output', async () => {
  const { client, prepare } = await legacyClient()
  const schema = callResultSchema({ specTypeSchemas })
  const counts = { taken: 0, refused: 0 }
  const result = fc
    .record(Object.fromEntries(Object.entries(members).map(([name, values]) => [name, fc.constantFrom(...values)])))
    .map((chosen) => Object.fromEntries(Object.entries(chosen).filter(([, value]) => value !== absent)))
  const outcome = (work: Promise<unknown>) => work.then(plain, () => 'refused')
  await fc.assert(
    fc.asyncProperty(result, async (value) => {
      prepare(value)
      const toolDefinition = { name: 'it', inputSchema: { type: 'object' as const } }
      const theirs = await outcome(client.callTool({ name: 'it' }, { toolDefinition }))
      const ours = await outcome(client.request({ method: 'tools/call', params: { name: 'it' } }, schema))
      assert.deepEqual(ours, theirs)
      counts[theirs === 'refused' ? 'refused' : 'taken'] += 1
    }),
    { numRuns: 2_000 },
  )
  assert.ok(counts.taken > 20 && counts.refused > 20, JSON.stringify(counts))
  await client.close()
})

test('callResultSchema refuses a result of another method', () => {
  const { validate } = callResultSchema({ specTypeSchemas })['~standard']
  const issues = (value: unknown) => (validate(value) as { issues?: unknown }).issues
  assert.equal(issues({ content: [text], structuredContent: { a: 1 } }), undefined)
  for (const value of [{ task: {} }, { structuredContent: [] }, { _meta: { progressToken: {} } }, [], null, 'text']) {
    assert.ok(issues(value), JSON.stringify(value))
  }
})

/** As it would be written down. */
function plain(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value))
}
