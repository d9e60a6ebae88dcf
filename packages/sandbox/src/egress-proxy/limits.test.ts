import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import type { HostLookup } from '@gantry/core/internal/egress/options'
import { here, listen, serve, serveRaw, testCertificate, testKey } from '../../../core/src/egress/egress.fixture.ts'
import type { EgressProxyLimits } from './egress-proxy.ts'
import { proxyFor, received, type TestProxy } from './proxy.fixture.ts'

const lookup: HostLookup = async () => [{ address: '127.0.0.1', family: 4 }]
const head = (...lines: readonly string[]): string => [...lines, '', ''].join('\r\n')
const overLimit = /^HTTP\/1\.1 503 .*\r\n\r\nLIMIT_EXCEEDED: [^\n]*\n$/s

async function setUp(t: TestContext, limits: Partial<EgressProxyLimits>, bytes = 2) {
  const server = await serve(t, (_, response) => response.end('x'.repeat(bytes)))
  const proxy = await proxyFor(t, { allow: here(server), limits })
  const get = head(`GET ${server.origin}/ HTTP/1.1`)
  return { server, get, ...proxy }
}

test('52: of ten thousand connections the proxy accepts sixty-four and refuses the others with a reason', async (t) => {
  const { open, send, get } = await setUp(t, { headMs: 600_000 })
  const held = new Set<Socket>()
  let refused = 0
  const one = async (): Promise<void> => {
    const socket = open()
    held.add(socket)
    const answered = received(socket).then((text) => {
      held.delete(socket)
      if (overLimit.test(text)) refused += 1
    })
    await Promise.race([answered, once(socket, 'connect')])
  }
  for (let wave = 0; wave < 100; wave += 1) {
    await Promise.all(Array.from({ length: 100 }, one))
    while (held.size > 64) await new Promise(setImmediate)
  }
  assert.equal(held.size, 64)
  assert.equal(refused, 10_000 - 64)
  assert.match(await send(get), overLimit)

  const [first] = held
  first?.destroy()
  let answer = await send(get)
  while (overLimit.test(answer)) answer = await send(get)
  assert.match(answer, /^HTTP\/1.1 200 /)
  for (const socket of held) socket.destroy()
})

test('52: the proxy times out an unfinished request head, even while bytes arrive', async (t) => {
  const { open, server } = await setUp(t, { headMs: 150 })
  const silent = open()
  const slow = open()
  slow.write(`GET ${server.origin}/ HTTP/1.1\r\n`)
  const drip = setInterval(() => slow.write('X: 1\r\n'), 20)
  const inside = open()
  inside.write(head(`CONNECT ${server.origin.slice(7)} HTTP/1.1`))
  for (const text of await Promise.all([silent, slow, inside].map(received))) {
    assert.match(text, /HTTP\/1.1 400 .*\r\n\r\nINPUT_INVALID: No request was complete within 150 ms.\n$/s)
  }
  clearInterval(drip)
  assert.equal(server.connections(), 0)
})

test('a request head that is too long is refused, in one piece and in many', async (t) => {
  const { send, get, server } = await setUp(t, { headBytes: 4_096 })
  assert.match(await send(get.replace('\r\n', `\r\nX: ${'x'.repeat(3_000)}\r\n`)), /^HTTP\/1.1 200 /)
  const long = /^HTTP\/1.1 400 .*\r\n\r\nINPUT_INVALID: The head of the request has more than 4096 bytes.\n$/s
  assert.match(await send(get.replace('\r\n', `\r\nX: ${'x'.repeat(5_000)}\r\n`)), long)
  assert.match(await send(get.replace('\r\n', `\r\n${'a:\r\n'.repeat(2_000)}`)), long)
  assert.match(await send(get.replace('/ ', `/${'x'.repeat(5_000)} `)), long)
  assert.equal(server.seen.length, 1)
})

test('the proxy closes an idle connection, with a reason when no response has begun', async (t) => {
  const left = Promise.withResolvers<void>()
  const mute = await serveRaw(t, (socket) => void socket.on('close', left.resolve).resume())
  const stuck = await serveRaw(t, (socket) => {
    socket.write('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf')
  })
  const secure = { origin: `https://secure.test:${mute.port}` }
  const { send } = await proxyFor(t, { allow: here(mute, stuck, secure), lookup, limits: { idleMs: 150 } })
  const timeout = /^HTTP\/1.1 504 .*\r\n\r\nTIMEOUT: The connection was idle for 150 ms.\n$/s
  assert.match(await send(head(`GET ${mute.origin}/ HTTP/1.1`)), timeout)
  await left.promise
  const upload = head(`POST ${mute.origin}/ HTTP/1.1`, 'Transfer-Encoding: chunked')
  assert.match(await send(upload, '3\r\nabc\r\n'), timeout)
  assert.match(await send(head(`GET ${stuck.origin}/ HTTP/1.1`)), /\r\n\r\nhalf$/)
  assert.match(await send(head(`CONNECT secure.test:${mute.port} HTTP/1.1`)), /200 Connection established\r\n\r\n$/)
})

test('the proxy stops a body at the byte limit of the connection, in both directions', async (t) => {
  const { server, send, get } = await setUp(t, { upBytes: 2_000, downBytes: 10_000 }, 10_000)
  const post = (...lines: readonly string[]): string => head(`POST ${server.origin}/ HTTP/1.1`, ...lines)
  assert.match(await send(get), /x{10000}$/)
  assert.match(await send(post('Content-Length: 1800'), 'y'.repeat(1_800)), /x{10000}$/)
  assert.equal(server.seen.length, 2)

  assert.match(await send(post('Content-Length: 2001')), overLimit)
  const chunk = `3e8\r\n${'y'.repeat(1_000)}\r\n`
  assert.match(await send(post('Transfer-Encoding: chunked'), chunk.repeat(3)), overLimit)
  assert.equal(server.seen.length, 2)

  const more = await setUp(t, { downBytes: 9_999 }, 10_000)
  assert.match(await more.send(more.get), /^HTTP\/1.1 502 .*\r\n\r\nRESULT_TOO_LARGE: /s)
})

/** A server that sends `bytes` to each client that greets it, and counts what it receives. */
async function serveBytes(t: TestContext, bytes: number) {
  const got = { bytes: 0 }
  const server = createTlsServer({ key: testKey, cert: testCertificate }, (socket) => {
    socket
      .on('error', () => {})
      .on('data', (piece) => {
        got.bytes += piece.length
      })
    socket.write('x'.repeat(bytes))
  })
  server.on('tlsClientError', () => {})
  const { port } = await listen(t, server)
  return { port, origin: `https://secure.test:${port}`, got }
}

/** Sends through a tunnel until it breaks or `enough` came back, and says how much came. */
async function throughTunnel({ open }: TestProxy, port: number, send: number, enough: number): Promise<number> {
  const socket = open()
  socket.write(head(`CONNECT secure.test:${port} HTTP/1.1`))
  await once(socket, 'data')
  const tls = connectTls({ socket, ca: testCertificate, servername: 'secure.test' }).on('error', () => {})
  let came = 0
  const { promise, resolve } = Promise.withResolvers<void>()
  tls.on('close', resolve).on('data', (piece) => {
    came += piece.length
    if (came >= enough) resolve()
  })
  tls.write('y'.repeat(send))
  await promise
  tls.destroy()
  return came
}

test('the proxy closes a tunnel at the byte limit of the connection, in both directions', async (t) => {
  const server = await serveBytes(t, 300_000)
  const allow = here(server)
  const roomy = await proxyFor(t, { allow, lookup })
  assert.equal(await throughTunnel(roomy, server.port, 1, 300_000), 300_000)

  const down = await proxyFor(t, { allow, lookup, limits: { downBytes: 100_000 } })
  assert.ok((await throughTunnel(down, server.port, 1, 300_000)) < 100_000)
  server.got.bytes = 0
  const up = await proxyFor(t, { allow, lookup, limits: { upBytes: 100_000 } })
  await throughTunnel(up, server.port, 1_000_000, 1_000_000)
  assert.ok(server.got.bytes < 100_000, `${server.got.bytes}`)
})

test('the proxy refuses new connections when all connections together reach the total byte limit', async (t) => {
  const { send, get, server } = await setUp(t, { totalBytes: 25_000 }, 10_000)
  assert.match(await send(get), /x{10000}$/)
  assert.match(await send(get), /x{10000}$/)
  const third = await send(get)
  assert.ok(third.length < 10_000)
  assert.match(await send(get), overLimit)
  assert.equal(server.seen.length, 3)
})

test('request heads count towards the byte limit', async (t) => {
  const { send, get } = await setUp(t, { totalBytes: 50_000 })
  const big = get.replace('\r\n', `\r\nX: ${'x'.repeat(10_000)}\r\n`)
  const answers: string[] = []
  for (let sent = 0; sent < 6; sent += 1) answers.push((await send(big)).slice(9, 12))
  assert.deepEqual(answers, ['200', '200', '200', '200', '503', '503'])
})
