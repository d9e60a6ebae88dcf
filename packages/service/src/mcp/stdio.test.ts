import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { fakeService } from '../http/service.fixture.ts'
import { bridge } from './bridge.ts'
import { serviceHost } from './host.ts'
import { openMcp } from './mcp.fixture.ts'
import { type LineClient, lineClient, refusedCalls } from './stdio.fixture.ts'
import { serveOverStdio } from './stdio.ts'

/** A client of tools in this process, and one of a service. */
async function bothWays(t: TestContext): Promise<readonly LineClient[]> {
  const identity = { principal: 'p', tenant: 't', permissions: ['*'] }
  const host = serviceHost(fakeService(), new AbortController().signal)
  const { server, key } = await openMcp(t)
  return [
    lineClient(t, (ends) => serveOverStdio({ host, version: '1.0.0', identity, ...ends })),
    lineClient(t, (ends) => bridge({ url: server.url, key, ...ends })),
  ]
}

test('a line that is no JSON is answered as one, and the next is taken', async (t) => {
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

test('JSON that is refused is answered under the id of its request, with the place and the reason', async (t) => {
  for (const client of await bothWays(t)) {
    await client.open()
    for (const [id, line, reason] of refusedCalls) {
      client.write(line)
      const { error } = await client.next(id)
      assert.equal(error?.code, -32_600)
      assert.match(error?.message ?? '', reason)
    }
    // What looks like an answer to us is not answered under the id that we gave.
    client.write('{"jsonrpc":"2.0","id":1,"result":{"__proto__":1}}')
    assert.equal((await client.next(null)).error?.code, -32_700)
    const args = { value: [[['"}{\\', 1]]] }
    const { result } = await client.request('tools/call', { name: 'demo__echo', arguments: args })
    assert.deepEqual(result.structuredContent, args)
  }
})

test('a line comes in any pieces, and one that never ends ends the stream', async (t) => {
  const { messageLines } = await import('./message-lines.ts')
  const lines = messageLines(() => assert.fail('nothing is wrong with it'), 20)
  t.after(() => lines.destroy())
  const come: string[] = []
  lines.on('data', (piece: Buffer) => come.push(piece.toString('utf8')))
  for (const byte of Buffer.from('{"a":"ü"}\n[1]\r\n')) lines.write(Buffer.from([byte]))
  const broken = new Promise((_, reject) => lines.on('error', reject))
  lines.write('x'.repeat(21))
  await assert.rejects(broken, /longer than 20 bytes/)
  assert.deepEqual(come, ['{"a":"ü"}\n', '[1]\r\n'])
})
