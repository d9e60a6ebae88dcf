import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type TestContext, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import type { HostLookup } from '@gantry/core/internal/egress/options'
import { answering, here, serve, serveRaw } from '../../../core/src/egress/egress.fixture.ts'
import { proxyFor, received } from './proxy.fixture.ts'

/** The head of a request with a whole URL. */
const head = (method: string, origin: string, path: string, ...lines: readonly string[]): string =>
  [`${method} ${origin}${path} HTTP/1.1`, `Host: ${origin.slice(7)}`, ...lines, '', ''].join('\r\n')

const bodyOf = (text: string): string => text.slice(text.indexOf('\r\n\r\n') + 4)
const headOf = (text: string): string[] => text.slice(0, text.indexOf('\r\n\r\n')).split('\r\n')

async function setUp(t: TestContext, handler: Parameters<typeof serve>[1]) {
  const server = await serve(t, handler)
  return { server, ...(await proxyFor(t, { allow: here(server) })) }
}

test('the proxy drops hop-by-hop and proxy headers and forwards all others', async (t) => {
  const { server, send } = await setUp(t, (_, response) => {
    response.setHeader('set-cookie', ['a=1', 'b=2'])
    response.writeHead(201, { 'x-hop': '1', connection: 'close, x-hop', 'x-kept': '2', 'proxy-authenticate': 'Basic' })
    response.end('made')
  })
  const lines = [
    'Connection: x-mine, keep-alive',
    'X-Mine: 1',
    'Keep-Alive: 5',
    'Proxy-Authorization: Basic c2VjcmV0',
    'Proxy-Connection: keep-alive',
    'TE: trailers',
    'Authorization: Bearer own',
    'Cookie: a=1',
    'Cookie: b=2',
    'X-Twice: 1',
    'X-Twice: 2',
    '__proto__: harmless',
    'Accept-Encoding: gzip',
  ]
  const text = await send(head('DELETE', server.origin, '/a/../b?c=%2F', ...lines))
  const [seen] = server.seen
  assert.equal(`${seen?.method} ${seen?.url}`, 'DELETE /b?c=%2F')
  const { connection, ...headers } = seen?.headers ?? {}
  assert.notEqual(connection, 'x-mine, keep-alive')
  assert.deepEqual(Object.entries(headers).sort(), [
    ['accept', '*/*'],
    ['accept-encoding', 'identity'],
    ['authorization', 'Bearer own'],
    ['cookie', 'a=1; b=2'],
    ['host', `127.0.0.1:${server.port}`],
    ['user-agent', 'gantry'],
    ['x-twice', '1, 2'],
  ])
  const [status, ...rest] = headOf(text)
  assert.equal(status, 'HTTP/1.1 201 Created')
  const names = rest.map((line) => line.toLowerCase()).filter((line) => !line.startsWith('date:'))
  assert.deepEqual(names.sort(), [
    'connection: close',
    'set-cookie: a=1',
    'set-cookie: b=2',
    'transfer-encoding: chunked',
    'x-kept: 2',
  ])
  assert.match(bodyOf(text), /\r\nmade\r\n0\r\n/)
})

test('the proxy decodes a body with an unrequested content encoding and drops its old length', async (t) => {
  const encoded = gzipSync('plain words')
  const { server, send } = await setUp(t, (_, response) => {
    response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': encoded.length }).end(encoded)
  })
  const text = await send(head('GET', server.origin, '/'))
  assert.match(bodyOf(text), /plain words/)
  assert.doesNotMatch(text, /content-encoding|content-length/i)
})

test('a response without a body keeps its body headers', async (t) => {
  const { server, send } = await setUp(t, (request, response) => {
    if (request.method === 'HEAD') response.writeHead(200, { 'content-length': 5 }).end()
    else response.writeHead(304, { etag: '"x"' }).end()
  })
  assert.match(await send(head('HEAD', server.origin, '/')), /content-length: 5\r\n.*\r\n\r\n$/is)
  assert.match(await send(head('GET', server.origin, '/')), /^HTTP\/1.1 304 .*etag: "x"\r\n.*\r\n\r\n$/is)
})

test('the proxy returns a redirect to the client and does not follow it', async (t) => {
  const other = await serve(t)
  const { server, send } = await setUp(t, (_, response) => {
    response.writeHead(302, { location: `${other.origin}/private` }).end()
  })
  assert.match(await send(head('GET', server.origin, '/')), /^HTTP\/1.1 302 .*location: /s)
  assert.equal(other.connections(), 0)
})

test('the proxy sends a body with its length, or chunked when the length is unknown or large', async (t) => {
  const { server, send } = await setUp(t, (_, response) => void response.end('ok'))
  const large = 'x'.repeat(1_500_000)
  await send(head('POST', server.origin, '/', 'Content-Length: 5', 'Content-Type: text/plain'), 'hello')
  await send(head('PUT', server.origin, '/', 'Transfer-Encoding: chunked'), '3\r\nabc\r\n', '2;x=y\r\nde\r\n0\r\n\r\n')
  await send(head('PUT', server.origin, '/', `Content-Length: ${large.length}`), large)
  await send(head('POST', server.origin, '/', 'Content-Length: 0'))
  assert.deepEqual(
    server.seen.map(({ headers, body }) => [headers['content-length'], headers['transfer-encoding'], body]),
    [
      ['5', undefined, 'hello'],
      [undefined, 'chunked', 'abcde'],
      [undefined, 'chunked', large],
      ['0', undefined, ''],
    ],
  )
})

test('the proxy streams request and response bodies at the same time', async (t) => {
  const server = await serveRaw(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n')
    socket.on('data', (piece) => {
      if (String(piece).includes('one')) socket.write('3\r\nONE\r\n')
      if (String(piece).includes('two')) socket.write('3\r\nTWO\r\n0\r\n\r\n')
    })
  })
  const { open } = await proxyFor(t, { allow: here(server) })
  const socket = open()
  socket.write(head('POST', server.origin, '/', 'Transfer-Encoding: chunked'))
  socket.write('3\r\none\r\n')
  let text = ''
  while (!text.includes('ONE')) text += String((await once(socket, 'data'))[0])
  socket.write('3\r\ntwo\r\n0\r\n\r\n')
  text += await received(socket)
  assert.match(text, /^HTTP\/1.1 200 OK.*ONE.*TWO\r\n0\r\n\r\n$/s)
})

test('the proxy sends 100 Continue only for an allowed request', async (t) => {
  const { server, send } = await setUp(t, (_, response) => void response.end('ok'))
  const lines = ['Expect: 100-continue', 'Transfer-Encoding: chunked']
  const text = await send(head('POST', server.origin, '/', ...lines), '2\r\nhi\r\n0\r\n\r\n')
  assert.match(text, /^HTTP\/1.1 100 Continue\r\n\r\nHTTP\/1.1 200 OK/)
  assert.equal(server.seen[0]?.headers.expect, undefined)
  assert.match(await send(head('POST', 'http://other.test', '/', ...lines)), /^HTTP\/1.1 403 .*\nEGRESS_DENIED: /s)
})

test('the proxy forwards a response that arrives before the request body ends, and a truncated body stays truncated', async (t) => {
  const early = await serveRaw(t, (socket) => {
    const answer = `HTTP/1.1 413 No\r\nContent-Length: 1000000\r\n\r\n${'y'.repeat(1_000_000)}`
    socket.once('data', () => void socket.pause().write(answer))
  })
  const short = await answering(t, 'HTTP/1.1 200 OK\r\nContent-Length: 30\r\n\r\nhalf')
  const { send } = await proxyFor(t, { allow: here(early, short) })
  const large = 'x'.repeat(12_000_000)
  const early413 = await send(head('PUT', early.origin, '/', `Content-Length: ${large.length}`), large)
  assert.equal(headOf(early413)[0], 'HTTP/1.1 413 Payload Too Large')
  assert.equal(bodyOf(early413).length, 1_000_000)
  const text = await send(head('GET', short.origin, '/'))
  assert.match(text, /Content-Length: 30\r\n/i)
  assert.ok(bodyOf(text).length < 30, text)
})

test('the proxy reports an unreachable or non-HTTP server in one line', async (t) => {
  const odd = await answering(t, 'SSH-2.0-OpenSSH_9.2\r\n')
  const gone = { origin: 'http://127.0.0.1:1' }
  const { send } = await proxyFor(t, { allow: here(odd, gone) })
  assert.match(await send(head('GET', odd.origin, '/')), /^HTTP\/1.1 502 .*\r\n\r\nBACKEND_FAILED: [^\n]*\n$/s)
  assert.match(await send(head('GET', gone.origin, '/')), /^HTTP\/1.1 503 .*\r\n\r\nBACKEND_UNAVAILABLE: [^\n]*\n$/s)
})

test('the proxy cancels the request of a client that disconnects', async (t) => {
  const arrived = Promise.withResolvers<void>()
  const left = Promise.withResolvers<void>()
  const server = await serveRaw(t, (socket) => {
    socket.once('data', () => arrived.resolve())
    socket.once('close', () => left.resolve())
  })
  const { open } = await proxyFor(t, { allow: here(server) })
  const socket = open()
  socket.write(head('GET', server.origin, '/'))
  await arrived.promise
  socket.destroy()
  await left.promise
})

test('a client that disconnects before the response does not affect other connections', async (t) => {
  const asked = Promise.withResolvers<void>()
  const answer = Promise.withResolvers<void>()
  const lookup: HostLookup = async () => {
    asked.resolve()
    await answer.promise
    return [{ address: '10.0.0.1', family: 4 }]
  }
  const { open, send, events } = await proxyFor(t, { allow: ['https://inner.test', 'http://inner.test'], lookup })
  const socket = open()
  socket.write('CONNECT inner.test:443 HTTP/1.1\r\n\r\n')
  await asked.promise
  socket.destroy()
  await once(socket, 'close')
  answer.resolve()
  assert.match(await send(head('GET', 'http://inner.test', '/')), /^HTTP\/1.1 403 /)
  assert.equal(events.length, 2)
})
