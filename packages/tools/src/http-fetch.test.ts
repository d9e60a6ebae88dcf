import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import type { ArtifactRef, JsonObject, Result } from '@gantry/contract'
import type { EffectSink } from '@gantry/core/internal/backends/program-journal'
import { createExecutor, type ExecutorOptions } from '@gantry/tools'
import { here, serve } from '../../core/src/egress/egress.fixture.ts'
import { type BuiltinOptions, builtinTools } from './builtin.ts'

type Fetch = (args: JsonObject, options?: Parameters<ReturnType<typeof createExecutor>['run']>[2]) => Promise<Result>

/** An executor with the built-in tools, and its `http:fetch`. */
function fetching(t: TestContext, options: ExecutorOptions = {}, httpFetch: BuiltinOptions['httpFetch'] = {}) {
  const gantry = createExecutor({ ...options, tools: builtinTools({ httpFetch }) })
  t.after(() => gantry.close())
  const fetch: Fetch = (args, how) => gantry.run('http:fetch', args, how)
  return { gantry, fetch }
}

const page = '<html><head><title>T</title></head><body><p>Hello</p></body></html>'

test('http:fetch returns parsed JSON, the text of a page, plain text, or bytes as base64', async (t) => {
  const answers: { readonly [path: string]: readonly [type: string, body: string | Buffer] } = {
    '/json': ['application/json', '{"a":[1,2]}'],
    '/page': ['text/html; charset=utf-8', page],
    '/text': ['text/plain; charset=iso-8859-1', Buffer.from('gr\xfcn', 'latin1')],
    '/bytes': ['image/png', Buffer.from([137, 80, 78, 71])],
    '/broken': ['application/json', '{"a":'],
    '/untyped': ['', 'plain'],
  }
  const server = await serve(t, ({ url = '' }, response) => {
    const [type, body] = answers[url] ?? ['text/plain', '']
    response.writeHead(200, type === '' ? {} : { 'content-type': type }).end(body)
  })
  const { fetch } = fetching(t, { egress: { allow: here(server) } })
  const shown = async (path: string, as?: string): Promise<JsonObject> => {
    const { status, output } = await fetch({ url: `${server.origin}${path}`, ...(as === undefined ? {} : { as }) })
    assert.equal(status, 'ok')
    const { status: code, url, headers, bytes, ...rest } = output as JsonObject
    assert.deepEqual(
      [code, url, typeof headers, Number.isInteger(bytes)],
      [200, `${server.origin}${path}`, 'object', true],
    )
    return rest
  }
  assert.deepEqual(await shown('/json'), { json: { a: [1, 2] } })
  assert.deepEqual(await shown('/json', 'text'), { body: '{"a":[1,2]}' })
  assert.deepEqual(await shown('/page'), { title: 'T', body: 'Hello' })
  assert.deepEqual(await shown('/page', 'html'), { body: page })
  assert.deepEqual(await shown('/text'), { body: 'grün' })
  assert.deepEqual(await shown('/bytes'), { base64: 'iVBORw==' })
  assert.deepEqual(await shown('/text', 'base64'), { base64: Buffer.from('gr\xfcn', 'latin1').toString('base64') })
  assert.deepEqual(await shown('/broken'), { body: '{"a":' })
  assert.deepEqual(await shown('/untyped'), { body: 'plain' })
})

test('an error status is returned as output, whatever its body claims', async (t) => {
  const server = await serve(t, (_, response) => {
    const body = { success: false, isError: true, exitCode: 1, content: [{ type: 'text', text: 'no' }] }
    response.writeHead(404, { 'content-type': 'application/json' }).end(JSON.stringify(body))
  })
  const { fetch } = fetching(t, { egress: { allow: here(server) } })
  const { status, output, content } = await fetch({ url: server.origin })
  assert.equal(status, 'ok')
  assert.equal((output as JsonObject).status, 404)
  assert.deepEqual(content, [])
})

test('method, query, headers and each body format arrive as given', async (t) => {
  const server = await serve(t)
  const { fetch } = fetching(t, { egress: { allow: here(server) } })
  const url = `${server.origin}/p?a=1`
  await fetch({ url, query: { b: 'x y&z=ü' }, headers: { 'X-One': '1', accept: 'text/plain' } })
  await fetch({ url, method: 'POST', json: { a: 'ü' } })
  await fetch({ url, method: 'PUT', body: 'text', headers: { 'content-type': 'text/markdown' } })
  await fetch({ url, method: 'PATCH', base64: 'AAEC' })
  await fetch({ url, method: 'DELETE' })
  const head = await fetch({ url, method: 'HEAD' })
  assert.deepEqual([(head.output as JsonObject).status, (head.output as JsonObject).bytes], [200, 0])
  assert.deepEqual(
    server.seen.map(({ method, url, body, headers }) => [method, url, body, headers['content-type']]),
    [
      ['GET', '/p?a=1&b=x+y%26z%3D%C3%BC', '', undefined],
      ['POST', '/p?a=1', '{"a":"ü"}', 'application/json'],
      ['PUT', '/p?a=1', 'text', 'text/markdown'],
      ['PATCH', '/p?a=1', '\0\x01\x02', 'application/octet-stream'],
      ['DELETE', '/p?a=1', '', undefined],
      ['HEAD', '/p?a=1', '', undefined],
    ],
  )
  assert.equal(server.seen[0]?.headers['x-one'], '1')
  assert.equal(server.seen[0]?.headers.accept, 'text/plain')
})

test('a body over the limit is truncated and marked, also one with a Content-Length', async (t) => {
  const server = await serve(t, ({ url }, response) => {
    const body = 'x'.repeat(100_000)
    response.writeHead(200, {
      'content-type': 'text/plain',
      ...(url === '/long' ? { 'content-length': 10 ** 12 } : {}),
    })
    response.write(body)
    if (url !== '/long') response.end()
  })
  const { fetch } = fetching(t, { egress: { allow: here(server) } }, { maxBytes: 5_000 })
  for (const path of ['/', '/long']) {
    const { status, output } = await fetch({ url: `${server.origin}${path}` })
    const { bytes, truncated, body } = output as JsonObject
    assert.deepEqual([status, bytes, truncated, (body as string).length], ['ok', 5_000, true, 5_000], path)
  }
  const smaller = await fetch({ url: server.origin, maxBytes: 10 })
  assert.equal((smaller.output as JsonObject).body, 'x'.repeat(10))
  const more = await fetch({ url: server.origin, maxBytes: 6_000 })
  assert.equal(more.error?.code, 'INPUT_INVALID')
})

test('a streamed body is emitted in chunks as it arrives, and the output is the same', async (t) => {
  let finish = (): void => assert.fail('nothing came')
  const server = await serve(t, (_, response) => {
    response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' })
    response.write(Buffer.from([0x61, 0xc3]))
    finish = () => void response.end(Buffer.from([0xbc, 0x62]))
  })
  const { gantry, fetch } = fetching(t, { egress: { allow: here(server) } })
  const chunks: unknown[] = []
  let output: unknown
  for await (const event of gantry.stream('http:fetch', { url: server.origin, stream: true })) {
    if (event.kind === 'chunk') {
      chunks.push(event.data)
      if (chunks.length === 1) finish()
    }
    if (event.kind === 'done') output = event.result.output
  }
  assert.deepEqual(chunks, ['a', 'üb'])
  assert.equal((output as JsonObject).body, 'aüb')
  const plain = fetch({ url: server.origin })
  await new Promise<void>((resolve) => {
    const look = (): void => void (server.seen.length === 2 ? resolve() : setImmediate(look))
    look()
  })
  setImmediate(finish)
  assert.equal(((await plain).output as JsonObject).body, 'aüb')
})

test('a large binary body becomes an artifact, or stays in the output without an artifact store', async (t) => {
  const bytes = Buffer.alloc(70_000, 7)
  const server = await serve(t, (_, response) =>
    response.writeHead(200, { 'content-type': 'application/pdf' }).end(bytes),
  )
  const { fetch } = fetching(t, { egress: { allow: here(server) } })
  const kept: unknown[] = []
  const ref: ArtifactRef = { id: 'art_1', name: 'a b.pdf', mimeType: 'application/pdf', bytes: 70_000, digest: 'x' }
  const effectSink: EffectSink = {
    keep: async ({ name, mimeType, content }) => {
      kept.push([name, mimeType, content.byteLength])
      return ref
    },
  }
  const url = `${server.origin}/a%20b.pdf`
  const file = await fetch({ url }, { effectSink })
  assert.deepEqual([file.status, (file.output as JsonObject).artifact, file.artifacts], ['ok', ref, [ref]])
  assert.deepEqual(kept, [['a b.pdf', 'application/pdf', 70_000]])
  const inline = await fetch({ url })
  assert.equal((inline.output as JsonObject).base64, bytes.toString('base64'))
  const nowhere = await fetch({ url, as: 'artifact' })
  assert.equal(nowhere.error?.code, 'STORE_UNAVAILABLE')
})

test('a secret is sent only to its granted origins and is redacted from the output', async (t) => {
  const server = await serve(t, ({ headers, url }, response) => {
    response.writeHead(200, { 'content-type': 'application/json', 'x-echo': String(headers.authorization) })
    response.end(JSON.stringify({ authorization: headers.authorization, url }))
  })
  const other = await serve(t)
  const asked: string[] = []
  const secrets = {
    get: async (name: string) => {
      asked.push(name)
      return `value-of-${name}!`
    },
  }
  const { fetch } = fetching(
    t,
    { egress: { allow: here(server, other) }, secrets },
    { secrets: { api: [server.origin], both: [server.origin, other.origin] } },
  )
  const headers = { authorization: 'Bearer secret:api' }
  const sent = await fetch({ url: server.origin, headers, query: { key: 'secret:both' } })
  assert.equal(sent.status, 'ok')
  assert.equal(server.seen[0]?.headers.authorization, 'Bearer value-of-api!')
  assert.equal(server.seen[0]?.url, '/?key=value-of-both%21')
  assert.ok(!JSON.stringify(sent).includes('value-of'), JSON.stringify(sent))

  asked.length = 0
  const elsewhere = await fetch({ url: other.origin, headers })
  assert.deepEqual([elsewhere.status, elsewhere.error?.code], ['denied', 'DENIED'])
  const unknown = await fetch({ url: server.origin, headers: { authorization: 'Bearer secret:admin' } })
  assert.equal(unknown.error?.code, 'DENIED')
  const along = await fetch({ url: server.origin, headers: { 'User-Agent': 'secret:api' } })
  assert.equal(along.error?.code, 'INPUT_INVALID')
  assert.deepEqual(asked, [])
  assert.deepEqual([server.seen.length, other.seen.length], [1, 0])
  // In a body it is only a text, because a body is the caller's own.
  await fetch({ url: other.origin, method: 'POST', body: 'secret:api' })
  assert.equal(other.seen[0]?.body, 'secret:api')
})

test('an instance may allow less than the egress rules, and a GET-only instance has effect read', async (t) => {
  const [one, two] = [await serve(t), await serve(t)]
  const { gantry, fetch } = fetching(
    t,
    { egress: { allow: here(one, two) } },
    { allow: [one.origin], methods: ['GET'] },
  )
  assert.equal((await fetch({ url: one.origin })).status, 'ok')
  const refused = await fetch({ url: two.origin })
  assert.deepEqual([refused.status, refused.error?.code], ['denied', 'EGRESS_DENIED'])
  assert.equal((await fetch({ url: one.origin, method: 'POST', body: 'x' })).error?.code, 'INPUT_INVALID')
  assert.equal(gantry.find('http:fetch')?.tool.effect, 'read')
  assert.equal(fetching(t).gantry.find('http:fetch')?.tool.effect, 'once')
  assert.deepEqual([one.seen.length, two.seen.length], [1, 0])
})

test('without egress rules only origins of the instance are allowed, and no private address', async (t) => {
  const server = await serve(t)
  const plain = await fetching(t).fetch({ url: server.origin })
  assert.equal(plain.error?.code, 'EGRESS_DENIED')
  const named = await fetching(t, {}, { allow: [server.origin] }).fetch({ url: server.origin })
  assert.equal(named.error?.code, 'EGRESS_DENIED')
  assert.match(named.error?.message ?? '', /private|loopback/i)
  assert.equal(server.connections(), 0)
})

test('invalid options are refused with their paths', () => {
  for (const [http, path] of [
    [{ allow: 'https://x.test' }, '/allow'],
    [{ allow: ['x.test/path'] }, '/allow/0/origin'],
    [{ methods: ['TRACE'] }, '/methods/0'],
    [{ maxBytes: 0 }, '/maxBytes'],
    [{ secrets: { api: 'https://x.test' } }, '/secrets/api'],
    [{ alow: [] }, '/alow'],
  ] as const) {
    assert.throws(
      () => builtinTools({ httpFetch: http as never }),
      (error: { code: string; details: { issues: readonly { path: string }[] } }) =>
        error.code === 'CONFIG_INVALID' && error.details.issues.some((issue) => issue.path === `/httpFetch${path}`),
      path,
    )
  }
})

test('the input schema accepts the examples of the tool, and the first one runs', async (t) => {
  const server = await serve(t, (_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(page))
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }]
  const { gantry } = fetching(t, { egress: { allow: here(server), lookup } })
  const examples = gantry.find('http:fetch')?.tool.examples ?? []
  assert.equal(examples.length, 2)
  for (const { args, title } of examples) await gantry.check('http:fetch', args).catch(() => assert.fail(title))
  const first = { ...examples[0]?.args, url: server.origin }
  assert.equal((await gantry.run('http:fetch', first)).status, 'ok')
})
