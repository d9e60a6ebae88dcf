import assert from 'node:assert/strict'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { test } from 'node:test'
import type { HttpBinding, Json } from '@gantry/contract'
import { createExecutor } from '../../executor.ts'
import { defineTool } from '../../tools/tool.ts'
import { http } from '../http.ts'
import { listen, sendJson } from './server.fixture.ts'

const canary = 'canary-5f1c9e-do-not-show'

function bound(name: string, binding: Omit<HttpBinding, 'kind'>) {
  const inputSchema = { type: 'object' } as const
  const backends = [{ kind: 'http', name: 'api', ...binding }]
  return defineTool({ namespace: 'test', name, description: 'A tool.', inputSchema, effect: 'keyed', backends })
}

/** Writes so that each secret is split over several pieces. */
function writeInPieces(response: ServerResponse, text: string): void {
  const [first = '', ...rest] = text.match(/.{1,5}/gs) ?? []
  response.writeHead(200, { 'content-type': 'text/plain' })
  const next = (piece: string | undefined): void => {
    if (piece === undefined) response.end()
    else response.write(piece, () => setImmediate(() => next(rest.shift())))
  }
  next(first)
}

function isChunk(event: Json): event is { kind: 'chunk'; data: Json } {
  return typeof event === 'object' && event !== null && 'kind' in event && event.kind === 'chunk'
}

test('a secret echoed by the server is redacted from output, chunks, errors and events', async (t) => {
  const server = await listen((request, response) => {
    const sent = `${request.headers.authorization} ${request.url}`
    if (request.url?.startsWith('/json')) sendJson(response, { sent })
    else if (request.url?.startsWith('/fail')) sendJson(response, { title: sent, sent }, 400)
    else if (request.url?.startsWith('/broken'))
      response.writeHead(200, { 'content-type': 'application/json' }).end(sent)
    else if (request.url?.startsWith('/pieces')) writeInPieces(response, sent)
    else response.writeHead(200, { 'content-type': 'text/event-stream' }).end(`data: ${JSON.stringify({ sent })}\n\n`)
  })
  t.after(server.close)
  const secured = {
    auth: [
      { type: 'bearer', token: 'secret:key' },
      { type: 'query', name: 'k', value: 'secret:key' },
    ],
  } as const
  const names = ['json', 'fail', 'broken', 'events', 'pieces']
  const gantry = createExecutor({
    backends: [http({ name: 'api', baseUrl: server.origin, private: true, ...secured })],
    tools: names.map((name) => bound(name, { path: `/${name}`, response: name === 'pieces' ? 'chunks' : 'auto' })),
    secrets: { key: canary },
  })
  t.after(() => gantry.close())
  const shownEvents: Json[] = []
  gantry.on('call:reported', (event) => void shownEvents.push(event as unknown as Json))
  gantry.on('call:finished', (event) => void shownEvents.push(event as unknown as Json))
  for (const name of names) {
    for await (const event of gantry.stream(`test:${name}`)) shownEvents.push(event as unknown as Json)
  }
  const text = JSON.stringify(shownEvents)
  assert.doesNotMatch(text, /canary-5f1c9e/)
  const shown = shownEvents
    .flatMap((event) => (isChunk(event) && typeof event.data === 'string' ? [event.data] : []))
    .join('')
  assert.match(shown, /^Bearer \[redacted\] \/pieces\?k=\[redacted\]$/)
  // Control: the server echoed the secret, once per header and URL, in each response.
  assert.ok(text.split('[redacted]').length > 8, text)
})

test('every attempt of a call sends the same idempotency key', async (t) => {
  const keys: unknown[] = []
  const server = await listen((request, response) => {
    keys.push(request.headers['idempotency-key'])
    sendJson(response, { attempt: keys.length }, keys.length < 3 ? 503 : 200)
  })
  t.after(server.close)
  const gantry = createExecutor({
    backends: [http({ name: 'api', baseUrl: server.origin, private: true })],
    tools: [bound('change', { method: 'POST', path: '/' })],
  })
  t.after(() => gantry.close())
  const retry = { attempts: 3, delayMs: 1 }
  const result = await gantry.run('test:change', { a: 1 }, { retry, idempotencyKey: 'order-7' })
  assert.deepEqual([result.status, result.output, result.attempts], ['ok', { attempt: 3 }, 3])
  assert.deepEqual(keys, ['order-7', 'order-7', 'order-7'])
})

test('an image response becomes image content, and a text stream becomes one text', async (t) => {
  const server = await listen((request, response) => {
    const picture = request.url === '/picture'
    response.writeHead(200, { 'content-type': picture ? 'image/png' : 'text/plain' })
    response.write('one ')
    response.end('two')
  })
  t.after(server.close)
  const gantry = createExecutor({
    backends: [http({ name: 'api', baseUrl: server.origin, private: true })],
    tools: [bound('picture', { path: '/picture' }), bound('text', { path: '/text', response: 'chunks' })],
  })
  t.after(() => gantry.close())
  const picture = await gantry.run('test:picture')
  assert.deepEqual(picture.content, [{ type: 'image', mimeType: 'image/png', data: btoa('one two') }])
  assert.equal((await gantry.run('test:text')).output, 'one two')
})

test('tools of a backend run under its name as namespace', async (t) => {
  const server = await listen((request, response) => sendJson(response, { url: request.url }))
  t.after(server.close)
  const { tool } = bound('ping', { path: '/ping' })
  const gantry = createExecutor({
    backends: [http({ name: 'shop', baseUrl: server.origin, private: true, tools: [tool] })],
  })
  t.after(() => gantry.close())
  assert.deepEqual((await gantry.run('shop:ping')).output, { url: '/ping' })
})

test('a POST that was redirected is neither retried nor sent to the next backend', async (t) => {
  for (const status of [401, 403, 429, 503]) {
    let posts = 0
    const answer = (request: IncomingMessage, response: ServerResponse): void => {
      if (request.method === 'POST') posts += 1
      if (request.method === 'POST') response.writeHead(303, { location: '/done' }).end()
      else response.writeHead(status, { 'retry-after': '0' }).end()
    }
    const [one, two] = [await listen(answer), await listen(answer)]
    t.after(one.close)
    t.after(two.close)
    const inputSchema = { type: 'object' } as const
    const backends = ['one', 'two'].map((name) => ({ kind: 'http', name, method: 'POST', path: '/do' }))
    const retry = { attempts: 3, delayMs: 0 }
    const tool = defineTool({ namespace: 'test', name: 'do', description: 'Does.', inputSchema, backends, retry })
    const gantry = createExecutor({
      tools: [tool],
      backends: [
        http({ name: 'one', baseUrl: one.origin, private: true }),
        http({ name: 'two', baseUrl: two.origin, private: true }),
      ],
    })
    const { error } = await gantry.run('test:do')
    assert.deepEqual([posts, error?.effect], [1, 'possible'], String(status))
    await gantry.close()
  }
})

test('an echoed Basic authorization header is redacted, however short its password', async (t) => {
  const server = await listen((request, response) => sendJson(response, { you: request.headers.authorization ?? '' }))
  t.after(server.close)
  const auth = { type: 'basic', username: 'me', password: 'secret:p' } as const
  const gantry = createExecutor({
    tools: [bound('echo', { path: '/' })],
    backends: [http({ name: 'api', baseUrl: server.origin, private: true, auth })],
    secrets: { p: 'abc123' },
  })
  assert.deepEqual((await gantry.run('test:echo')).output, { you: 'Basic [redacted]' })
  await gantry.close()
})
