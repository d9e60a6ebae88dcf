import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { bridge } from '@gantry/mcp/internal/server/bridge'
import { messageLines, type RefusedJson } from '@gantry/mcp/internal/server/message-lines'
import { serveOverStdio } from '@gantry/mcp/internal/server/stdio'
import { fakeService } from '../http/service.fixture.ts'
import { serviceHost } from './http-handler.ts'
import { envelope, openMcp } from './mcp.fixture.ts'
import { type LineClient, lineClient, refusedCalls } from './stdio.fixture.ts'

/** A client of tools in this process, and a client of a service. */
async function bothWays(t: TestContext): Promise<readonly LineClient[]> {
  const identity = { principal: 'p', tenant: 't', permissions: ['*'] }
  const host = serviceHost(fakeService(), new AbortController().signal)
  const { server, key } = await openMcp(t)
  return [
    lineClient(t, (ends) => serveOverStdio({ host, version: '1.0.0', identity, ...ends })),
    lineClient(t, (ends) => bridge({ url: server.url, key, ...ends })),
  ]
}

test('a line of malformed JSON gets a parse error, and the next line is handled', async (t) => {
  for (const client of await bothWays(t)) {
    await client.open()
    for (const line of ['{bad json', '{"jsonrpc":"2.0","id":1,"method":"ping","params":{', 'hello']) {
      client.write(line)
      const { error } = await client.next(null)
      assert.equal(error?.code, -32_700)
      assert.match(error?.message ?? '', /^Parse error: .* at line 1, column \d+\.$/)
    }
    client.write('')
    assert.deepEqual((await client.request('ping')).result, {})
  }
})

test('refused JSON is answered under the id of its request, with the position and the reason', async (t) => {
  for (const client of await bothWays(t)) {
    await client.open()
    for (const [id, line, reason] of refusedCalls) {
      client.write(line)
      const { error } = await client.next(id)
      assert.equal(error?.code, -32_600)
      assert.match(error?.message ?? '', reason)
    }
    // A message that looks like a response to the server is not answered under its id.
    client.write('{"jsonrpc":"2.0","id":1,"result":{"__proto__":1}}')
    assert.equal((await client.next(null)).error?.code, -32_700)
    const args = { value: [[['"}{\\', 1]]] }
    const { result } = await client.request('tools/call', { name: 'demo__echo', arguments: args })
    assert.deepEqual(result.structuredContent, args)
  }
})

test('JSON that is no JSON-RPC message is refused under its id, or under null, and the next line is handled', async (t) => {
  for (const client of await bothWays(t)) {
    await client.open()
    for (const [line, id] of [
      ['{"jsonrpc":"2.0","id":65,"method":"ping","params":5}', 65],
      ['{"jsonrpc":"2.0","id":62}', 62],
      ['{"jsonrpc":"1.0","id":"old","method":"ping"}', 'old'],
      ['{"jsonrpc":"2.0","id":7,"method":"ping","more":1}', 7],
      ['{"jsonrpc":"2.0","id":8,"method":9}', 8],
      ['{"jsonrpc":"2.0","id":null,"method":"ping"}', null],
      ['{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', null],
      ['{"method":"ping"}', null],
      ['{}', null],
      ['5', null],
      ['null', null],
    ] as const) {
      client.write(line)
      const { error } = await client.next(id)
      assert.equal(error?.code, -32_600, line)
      assert.match(error?.message ?? '', /Invalid JSON-RPC 2\.0/, line)
    }
    assert.deepEqual((await client.request('ping')).result, {})
    assert.deepEqual(client.left, [])
  }
})

test('notifications and responses get no answer, whatever is wrong with them', async (t) => {
  for (const client of await bothWays(t)) {
    await client.open()
    for (const line of [
      '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}',
      '{"jsonrpc":"2.0","method":"notifications/progress","params":5}',
      '{"jsonrpc":"2.0","id":1,"result":5}',
      '{"jsonrpc":"2.0","id":null,"error":{"code":"odd"}}',
      '  ',
    ]) {
      client.write(line)
    }
    assert.deepEqual((await client.request('ping')).result, {})
    assert.deepEqual(client.left, [])
  }
})

test('each request of a batch is answered, and a refused batch runs nothing and answers each of its requests', async (t) => {
  const ping = (id: unknown, more: object = {}): object => ({ jsonrpc: '2.0', id, method: 'ping', ...more })
  const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 'none' } }
  const many = Array.from({ length: 51 }, (_, id) => id)
  for (const client of await bothWays(t)) {
    await client.open()
    client.write(JSON.stringify([ping('a'), cancelled, ping('b')]))
    for (const id of ['b', 'a']) assert.deepEqual((await client.next(id)).result, {})
    for (const [batch, ids] of [
      [[], [null]],
      [[5, cancelled], [null]],
      [
        [ping('c'), { jsonrpc: '2.0', id: 'd' }],
        ['c', 'd'],
      ],
      [[ping('e', { params: { _meta: envelope } })], ['e']],
      [[ping('f', { method: 'initialize' })], ['f']],
      [many.map((id) => ping(id)), many],
    ] as const) {
      client.write(JSON.stringify(batch))
      for (const id of ids) {
        const { error } = await client.next(id)
        assert.equal(error?.code, -32_600)
        assert.match(error?.message ?? '', /batch/)
      }
    }
    assert.deepEqual((await client.request('ping')).result, {})
    assert.deepEqual(client.left, [])
  }
})

test('a line over the limit is refused, however long it is, and the next line is handled', async (t) => {
  for (const client of await bothWays(t)) {
    await client.open()
    const piece = 'x'.repeat(1_048_576)
    client.write(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"${piece.repeat(40)}"}}`)
    const { error } = await client.next(null)
    assert.deepEqual([error?.code, error?.message], [-32_600, 'The message is longer than 16777216 bytes.'])
    assert.deepEqual((await client.request('ping')).result, {})
    assert.deepEqual(client.left, [])
  }
})

test('a line may arrive in any pieces, and nothing of a line over the limit is kept', async (t) => {
  const answers: RefusedJson[] = []
  const lines = messageLines({ refuse: (answer) => void answers.push(answer), isMessage: () => true, most: 20 })
  t.after(() => lines.destroy())
  const come: string[] = []
  lines.on('data', (piece: Buffer) => come.push(piece.toString('utf8')))
  for (const byte of Buffer.from('{"a":"ü"}\n{}\r\n')) lines.write(Buffer.from([byte]))
  lines.write('x'.repeat(21))
  assert.equal(answers.length, 1, 'answered before the line ends')
  for (let more = 0; more < 100; more += 1) lines.write('x'.repeat(100))
  lines.write(`y\n{"b":1}\n${'z'.repeat(20)}\n{"c":1}\n`)
  const { id, error } = answers[0] ?? {}
  assert.deepEqual([id, error], [null, { code: -32_600, message: 'The message is longer than 20 bytes.' }])
  assert.equal(answers.length, 2)
  assert.deepEqual(come, ['{"a":"ü"}\n', '{}\r\n', '{"b":1}\n', '{"c":1}\n'])
})
