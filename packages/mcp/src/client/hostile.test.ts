import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inspect } from 'node:util'
import { ToolError } from '@gantry/contract'
import { open, raw, until } from './backend.fixture.ts'

test('discovery reads all pages of a tool list', async () => {
  await using server = open({ command: raw('pages') })
  assert.deepEqual(
    (await server.discover()).map(({ name }) => name),
    ['tool-0', 'tool-1', 'tool-2', 'tool-3', 'tool-4'],
  )
})

for (const mode of ['same-cursor', 'endless-pages']) {
  test(`discovery refuses a tool list whose pages do not end (${mode})`, async () => {
    await using server = open({ command: raw(mode) })
    await assert.rejects(server.discover(), /The list of tools of the MCP server test does not end/)
    assert.deepEqual(server.host.published, [])
  })
}

test('discovery uses the first tools of too many, and reports the rest as missing', async () => {
  await using server = open({ command: raw('many') })
  assert.equal((await server.discover()).length, 1_000)
  assert.ok(server.host.reports.some(({ message }) => message.includes('more than 1000 tools')))
  await using few = open({ command: raw('many'), maxTools: 3 })
  assert.equal((await few.discover()).length, 3)
})

test('discovery repairs or omits malformed tools without affecting the others', async () => {
  await using server = open({ command: raw('strange'), effects: { good: 'read' } })
  const tools = await server.discover()
  assert.deepEqual(
    tools.map(({ name }) => name),
    ['good', 'with_slash_and_space', 'silent', 'wordy', 'liar'],
  )
  const [good, slash, silent, wordy, liar] = tools
  assert.equal(good?.effect, 'read', 'the host said so')
  assert.deepEqual(slash?.backends, [{ kind: 'mcp', name: 'test', tool: 'with/slash and space' }])
  assert.match(silent?.description ?? '', /does not describe it/)
  assert.equal(wordy?.description.length, 10_000)
  assert.equal(liar?.effect, 'once', 'a hint never makes a tool repeatable')
  assert.deepEqual(liar?.icons, [{ src: 'https://example.com/a.png', sizes: ['16x16'] }])
  assert.ok(!JSON.stringify(liar).includes('\u202e'))
  const left = server.host.reports.filter(({ message }) => message.includes('was left out'))
  assert.equal(left.length, 4)
})

test('tools outside `include` or inside `exclude` are neither discovered nor callable', async () => {
  await using server = open({ command: raw('plain'), include: ['add', 'e*'], exclude: ['env'] })
  assert.deepEqual(
    (await server.discover()).map(({ name }) => name),
    ['add', 'error-result'],
  )
  await assert.rejects(server.call('env'), { code: 'NO_BACKEND' })
})

test('the backend reads and publishes a changed tool list again', async () => {
  await using server = open({ command: raw('changing') })
  await server.discover()
  await until(() => server.host.published.length === 2)
  assert.deepEqual(
    server.host.published[1]?.map(({ name }) => name),
    ['first', 'second'],
  )
})

test('the backend does not read the tool list in a loop when every list is followed by a change notification', async () => {
  await using server = open({ command: raw('list-loop') })
  await server.discover()
  await until(() => server.host.published.length === 2)
  const count = async () => Number((await server.call('count')).content[0]?.text)
  const [lists, since] = [await count(), performance.now()]
  for (let calls = 0; calls < 50; calls++) await count()
  const seconds = (performance.now() - since) / 1_000
  assert.ok((await count()) <= lists + 1 + seconds, 'lists are read a second apart or more')
})

test('responses without a request are ignored', async () => {
  await using server = open({ command: raw('wrong-id') })
  assert.deepEqual((await server.call('add', { a: 1, b: 2 })).structuredContent, { result: 3 })
})

test('lines that are not messages are ignored', async () => {
  await using server = open({ command: raw('garbage') })
  assert.deepEqual((await server.call('add', { a: 1, b: 2 })).structuredContent, { result: 3 })
})

test('a server that prints only lines that are not messages is stopped', async () => {
  await using server = open({ command: raw('garbage-only') })
  await assert.rejects(server.discover(), /printed 1000 lines that are not messages and was stopped/)
})

test('a storm of change notifications delays no response and leads to one refresh', async () => {
  await using server = open({ command: raw('storm') })
  await server.discover()
  assert.deepEqual((await server.call('add', { a: 1, b: 2 })).structuredContent, { result: 3 })
  assert.equal(server.host.published.length, 1, 'nothing had changed')
})

test('a message over the size limit stops the server and fails its calls, and the next call starts a new server', async () => {
  await using server = open({ command: raw('plain'), maxResponseBytes: 1_048_576 })
  const waiting = server.call('wait')
  await assert.rejects(server.call('bang'), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'BACKEND_FAILED')
    assert.match(error.message, /sent a message larger than 1048576 bytes and was stopped/)
    return true
  })
  await assert.rejects(waiting, { code: 'BACKEND_FAILED' })
  assert.deepEqual((await server.call('add', { a: 1, b: 2 })).structuredContent, { result: 3 })
})

test('a flood of stderr output is logged in part, without control characters and without secrets of the environment', async () => {
  const env = { TOKEN: 'secret:token' }
  await using server = open({ command: raw('noise'), env }, { token: 'correct-horse-battery' })
  await server.call('add', { a: 1, b: 2 })
  await until(() => server.host.reports.some(({ message }) => message.includes('line 1 ')))
  const logged = server.host.reports.filter(({ kind }) => kind === 'log')
  assert.ok(logged.length < 1_500, `${logged.length} of 3,000 lines were logged`)
  assert.match(logged[0]?.message ?? '', /^test: line 0 {2}U\+001B {1,2}\[31mred \[redacted\]$/)
})

test('an aborted signal ends a call to a server that never responds', async () => {
  await using server = open({ command: raw('plain') })
  await assert.rejects(server.call('wait', {}, { signal: AbortSignal.timeout(300) }), { name: 'TimeoutError' })
})

test('a server that never responds is unavailable after the time limit, and no call was sent', async () => {
  await using server = open({ command: raw('mute'), timeoutMs: 600 })
  await assert.rejects(server.discover(), { code: 'BACKEND_UNAVAILABLE', message: /did not answer within 600 ms/ })
})

test('a server that never sends its tool list is unavailable after the time limit', async () => {
  await using server = open({ command: raw('no-list'), timeoutMs: 800 })
  await assert.rejects(server.discover(), {
    code: 'BACKEND_UNAVAILABLE',
    message: /did not (list its tools in|answer within) 800 ms/,
  })
})

test('a server that exits at once is reported with its last output, and is not restarted at once', async () => {
  await using server = open({ command: raw('exits'), restart: { delayMs: 60_000, maxDelayMs: 60_000 } })
  await assert.rejects(server.call('add'), {
    code: 'BACKEND_UNAVAILABLE',
    effect: 'none',
    message: /ended with exit code 4\. The last it said: "no licence found"/,
  })
  await assert.rejects(server.call('add'), (error) => {
    assert.ok(ToolError.is(error))
    assert.ok((error.details?.retryAfterMs ?? 0) > 10_000)
    return true
  })
})

test('an old server that exits when its revision is probed is started again without the probe', async () => {
  await using server = open({ command: raw('quits-on-question') })
  assert.deepEqual((await server.call('add', { a: 1, b: 2 })).structuredContent, { result: 3 })
})

test('the program sees only the environment variables that it was given', async () => {
  process.env.GANTRY_TEST_PRIVATE = 'not for servers'
  try {
    const env = { GIVEN: 'Bearer secret:token' }
    await using server = open({ command: raw('plain'), env }, { token: 'correct-horse' })
    const seen = JSON.parse((await server.call('env')).content[0]?.text ?? '{}')
    const usual = ['PATH', 'HOME', 'LANG', 'TMPDIR', 'TEMP']
    assert.deepEqual(
      Object.keys(seen).filter((name) => !usual.includes(name)),
      ['GIVEN'],
    )
    assert.equal(seen.GIVEN, 'Bearer correct-horse')
  } finally {
    delete process.env.GANTRY_TEST_PRIVATE
  }
})

test('a secret that an environment variable cannot hold does not appear in the error', async () => {
  await using server = open({ command: raw('plain'), env: { TOKEN: 'secret:token' } }, { token: 'correct\0horse' })
  await assert.rejects(server.call('add'), (error) => {
    assert.match(String(error), /holds a NUL character/)
    assert.ok(!inspect(error, { depth: 10 }).includes('correct'))
    return true
  })
})

test('no shell interprets the arguments of the command', async () => {
  const [node = '', script = ''] = raw('plain')
  await using server = open({ command: [node, script, '$(exit 1); `exit 1`'] })
  assert.deepEqual((await server.call('add', { a: 1, b: 2 })).structuredContent, { result: 3 })
})

test('the client answers a server’s request with its handler, and refuses it without one', async () => {
  await using silent = open({ command: raw('plain') })
  const refusal = JSON.parse((await silent.call('ask')).content[0]?.text ?? '{}')
  assert.equal(refusal.error.code, -32_601)
  const asked: unknown[] = []
  await using talking = open({
    command: raw('plain'),
    onElicitation: async (request) => {
      asked.push(request.message)
      return { action: 'accept', content: { name: 'Ada' } }
    },
  })
  const answer = JSON.parse((await talking.call('ask')).content[0]?.text ?? '{}')
  assert.deepEqual(answer.result.content, { name: 'Ada' })
  assert.deepEqual(asked, ['Who?'])
})

test('onRoots may return a list or the result object of the protocol', async () => {
  const roots = [{ uri: 'file:///tmp', name: 'here' }]
  for (const given of [roots, { roots }]) {
    await using server = open({ command: raw('plain'), onRoots: async () => given })
    assert.deepEqual(JSON.parse((await server.call('ask-roots')).content[0]?.text ?? '{}').result, { roots })
  }
})

test('a server gets a readable error when a handler returns an invalid value', async () => {
  const nonsense = [undefined, null, 7, 'here', [7], { roots: 'here' }, { roots: [{ uri: 7 }] }, {}] as never[]
  for (const given of nonsense) {
    await using server = open({ command: raw('plain'), onRoots: async () => given })
    const { error } = JSON.parse((await server.call('ask-roots')).content[0]?.text ?? '{}')
    assert.match(error.message, /^The client cannot answer: its onRoots returned no /, JSON.stringify(given))
  }
  const command = raw('plain')
  const give = async () => undefined as never
  await using server = open({ command, onElicitation: give, onSampling: give })
  for (const [tool, handler] of [
    ['ask', 'onElicitation'],
    ['ask-model', 'onSampling'],
  ] as const) {
    const { error } = JSON.parse((await server.call(tool)).content[0]?.text ?? '{}')
    assert.equal(error.message, `The client cannot answer: its ${handler} returned no result of the protocol.`)
  }
})

test('a server that refuses the handshake is reported with its message', async () => {
  await using server = open({ command: raw('refuses') })
  await assert.rejects(server.call('add'), { code: 'BACKEND_UNAVAILABLE', message: 'no entry here' })
})

test('a URL that a server asks the user to open must be http or https', async () => {
  const shown: unknown[] = []
  await using server = open({
    command: raw('plain'),
    onElicitation: async (request) => {
      shown.push(request.url)
      return { action: 'accept' }
    },
  })
  const ask = async (url: string) => JSON.parse((await server.call('ask-url', { url })).content[0]?.text ?? '{}')
  assert.equal((await ask('https://example.com/login')).result.action, 'accept')
  for (const url of ['javascript:alert(1)', 'file:///etc/passwd', 'vscode://run?cmd=calc']) {
    assert.notEqual((await ask(url)).error, undefined, url)
  }
  assert.deepEqual(shown, ['https://example.com/login'])
})
