import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { defineTool, http, type Result, ToolError } from 'gantry'
import { createTestExecutor, type RecordedExchange, recordedHttp } from 'gantry/testing'
import { folderWith } from '../../../service/src/config/config.fixture.ts'

const anything = { type: 'object' } as const
const note = defineTool({
  namespace: 'my',
  name: 'note',
  description: 'Leaves a file and a log line.',
  inputSchema: anything,
  secrets: ['TOKEN'],
  async run(_args, context) {
    context.log('info', `with ${context.secrets.TOKEN}`)
    await context.attach({ name: 'note.txt', mimeType: 'text/plain', content: Buffer.from('hello') })
    return { token: context.secrets.TOKEN, key: context.idempotencyKey }
  },
})

/** A backend of an API that is authenticated with a secret, and a tool that posts to it. */
function api(baseUrl: string) {
  return http({ name: 'api', baseUrl, auth: { type: 'bearer', token: 'secret:TOKEN' } })
}

const create = defineTool({
  namespace: 'my',
  name: 'create',
  description: 'Creates an item.',
  inputSchema: { type: 'object', properties: { title: { type: 'string' } } },
  backends: [{ kind: 'http', name: 'api', method: 'POST', path: '/items', body: { type: 'json' } }],
})

const created: RecordedExchange = {
  request: { method: 'POST', url: 'https://api.example.com/items', body: { json: { title: 'one' } } },
  response: { status: 201, body: { json: { id: 7 } } },
}

async function runNote(seed?: number): Promise<{ result: Result; chainId: string }> {
  const gantry = createTestExecutor({
    tools: [note],
    secrets: { TOKEN: 'fake-token-1' },
    ...(seed === undefined ? {} : { seed }),
  })
  const result = await gantry.run('my:note')
  gantry.clock.advance(1_500)
  const { chainId, startedAt } = await gantry.chain([{ tool: 'my:note' }])
  assert.equal(startedAt, '2026-01-01T00:00:01.500Z')
  await gantry.close()
  return { result, chainId }
}

test('two runs with one seed give equal results, with the time of the clock and without secrets', async () => {
  const [first, second, other] = [await runNote(), await runNote(), await runNote(2)]
  assert.equal(first.result.status, 'ok', first.result.error?.message)
  assert.deepEqual(first, second)
  assert.notEqual(first.result.callId, other.result.callId)
  assert.equal(first.result.startedAt, '2026-01-01T00:00:00.000Z')
  assert.equal(first.result.durationMs, 0)
  assert.deepEqual(first.result.output, { token: '[redacted]', key: first.result.callId })
})

test('a timeout is measured although the clock stands still', async () => {
  const hangs = defineTool({
    namespace: 'my',
    name: 'hangs',
    description: 'Never ends.',
    inputSchema: anything,
    run: (_args, { signal }) => new Promise((_resolve, reject) => signal.addEventListener('abort', reject)),
  })
  const gantry = createTestExecutor({ tools: [hangs] })
  const { status } = await gantry.run('my:hangs', {}, { timeoutMs: 20 })
  await gantry.close()
  assert.equal(status, 'timeout')
})

test('a request gets its recorded response once, and one without a record fails with its name', async () => {
  const gantry = createTestExecutor({
    tools: [create],
    backends: [api('https://api.example.com')],
    secrets: { TOKEN: 'fake-token-1' },
    http: [created],
  })
  const first = await gantry.run('my:create', { title: 'one' })
  assert.deepEqual([first.status, first.output], ['ok', { id: 7 }], first.error?.message)
  const again = await gantry.run('my:create', { title: 'one' })
  assert.equal(again.error?.code, 'EGRESS_DENIED')
  assert.match(again.error?.message ?? '', /answered earlier requests/)
  const other = await gantry.run('my:create', { title: 'two', password: 'hunter22' })
  const { message = '' } = other.error ?? {}
  assert.match(message, /^No response is recorded for POST https:\/\/api\.example\.com\/items \{.*"title":"two"\}/)
  assert.match(message, /Recorded:\n {2}POST https:\/\/api\.example\.com\/items \{"title":"one"\}/)
  assert.doesNotMatch(message, /hunter22/)
  const states = gantry.http.requests.map(({ answered }) => answered)
  assert.deepEqual([states, gantry.http.unused], [['recorded', 'nothing', 'nothing'], []])
  await gantry.close()
})

test('the egress rules refuse a recorded request that they would refuse in production', async () => {
  const gantry = createTestExecutor({
    tools: [create],
    backends: [api('https://api.example.com')],
    secrets: { TOKEN: 'fake-token-1' },
    http: [created],
    egress: { allow: ['https://other.example.com'] },
  })
  const { error } = await gantry.run('my:create', { title: 'one' })
  await gantry.close()
  assert.equal(error?.code, 'EGRESS_DENIED')
  assert.match(error?.message ?? '', /api\.example\.com/)
  assert.deepEqual(gantry.http.requests, [])
})

/** A server that issues a token and repeats what it is sent. */
async function listen(t: TestContext): Promise<string> {
  const server = createServer((request, response) => {
    const sent = request.headers.authorization ?? ''
    response.setHeader('set-cookie', 'session=abc')
    response.setHeader('content-type', 'application/json')
    response.end(JSON.stringify({ path: request.url, sent, access_token: 'issued-token-9' }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a recording holds no secret, and answers the same requests with other secrets and without a network', async (t) => {
  const origin = await listen(t)
  using folder = folderWith({})
  const file = join(folder.path, 'recordings/api.json')
  const egress = { allow: [{ origin, private: true }] }
  const record = createTestExecutor({
    tools: [create],
    backends: [api(origin)],
    secrets: { TOKEN: 'real-token-1' },
    http: { file, mode: 'record' },
    egress,
  })
  const live = await record.run('my:create', { title: 'one' })
  assert.equal(live.status, 'ok', live.error?.message)
  const query = 'next=issued-token-9&api_key=k-123456'
  const fetched = await record.http.fetch(`${origin}/more?${query}`, { headers: { authorization: 'Bearer other-1' } })
  assert.match(await fetched.text(), /other-1/)
  await record.close()
  const written = readFileSync(file, 'utf8')
  assert.doesNotMatch(written, /real-token-1|issued-token-9|other-1|k-123456|abc/)

  const replay = createTestExecutor({
    tools: [create],
    backends: [api(origin)],
    secrets: { TOKEN: 'fake-token-1' },
    http: { file },
    egress,
  })
  const { output } = await replay.run('my:create', { title: 'one' })
  assert.deepEqual(output, { path: '/items', sent: 'Bearer [redacted]', access_token: '[redacted]' })
  const again = await replay.http.fetch(`${origin}/more?${new URLSearchParams({ next: '[redacted]', api_key: 'x' })}`)
  assert.equal(again.status, 200)
  assert.deepEqual(replay.http.unused, [])
  await replay.close()
})

test('a tool that is given its fetch runs on a list of exchanges', async () => {
  const recording = recordedHttp([
    { request: { url: 'https://api.example.com/days?n=2' }, response: { body: { json: [1, 2] } }, repeat: true },
  ])
  const days = defineTool({
    namespace: 'my',
    name: 'days',
    description: 'Lists days.',
    inputSchema: anything,
    run: async () => (await recording.fetch('https://api.example.com/days?n=2')).json(),
  })
  const gantry = createTestExecutor({ tools: [days], http: recording })
  const outputs = [await gantry.run('my:days'), await gantry.run('my:days')].map(({ output }) => output)
  assert.deepEqual(outputs, [
    [1, 2],
    [1, 2],
  ])
  await gantry.close()
})

test('wrong options, exchanges and files are refused with their place', () => {
  const refused = (make: () => unknown): string => {
    try {
      make()
    } catch (error) {
      assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
      return error.message
    }
    return assert.fail('it was accepted')
  }
  assert.match(
    refused(() => createTestExecutor({ now: 'soon', seed: 0.5 })),
    /\/now must be a time.*\/seed must be/,
  )
  assert.match(
    refused(() => recordedHttp([{ request: { url: '/x' }, response: {} }])),
    /\/0\/request\/url must be a URL/,
  )
  assert.match(
    refused(() => recordedHttp({ file: '/nowhere/x.json' })),
    /does not exist; run the test once/,
  )
})
