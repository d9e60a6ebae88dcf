import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import type { Socket } from 'node:net'
import { buffer, text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import {
  type ConnectionOptions,
  connect as connectTls,
  createServer as createTlsServer,
  type TLSSocket,
} from 'node:tls'
import type { HostLookup } from '@gantry/core/internal/egress/options'
import { here, listen, serve, serveRaw, testCertificate, testKey } from '../../../core/src/egress/egress.fixture.ts'
import { proxyFor, received, serveTls, type TestProxy } from './proxy.fixture.ts'

const lookup: HostLookup = async () => [{ address: '127.0.0.1', family: 4 }]

/** Opens a tunnel and waits for the answer to CONNECT. */
async function tunnelTo({ open }: TestProxy, host: string): Promise<Socket> {
  const socket = open()
  socket.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  const [answer] = await once(socket, 'data')
  assert.equal(String(answer), 'HTTP/1.1 200 Connection established\r\n\r\n')
  return socket
}

/** Speaks TLS through a tunnel; rejects when that does not come about. */
async function encrypt(socket: Socket, more: ConnectionOptions = {}): Promise<TLSSocket> {
  const tls = connectTls({ socket, ca: testCertificate, servername: 'secure.test', ...more })
  await once(tls, 'secureConnect')
  return tls
}

const get = 'GET /x HTTP/1.1\r\nHost: secure.test\r\nConnection: close\r\n\r\n'

test('a tunnel forwards bytes unchanged in both directions until both sides end', async (t) => {
  const server = createTlsServer({ key: testKey, cert: testCertificate, allowHalfOpen: true }, async (socket) => {
    const sent = await buffer(socket)
    socket.write(createHash('sha256').update(sent).digest())
    socket.end(sent)
  })
  const { port } = await listen(t, server)
  const proxy = await proxyFor(t, { allow: here({ origin: `https://secure.test:${port}` }), lookup })
  const tls = await encrypt(await tunnelTo(proxy, `secure.test:${port}`), { allowHalfOpen: true } as ConnectionOptions)
  const sent = randomBytes(3_000_000)
  tls.end(sent)
  const back = await buffer(tls)
  assert.ok(back.subarray(0, 32).equals(createHash('sha256').update(sent).digest()))
  assert.ok(back.subarray(32).equals(sent))
})

test('51: a tunnel forwards TLS only for the CONNECT host name', async (t) => {
  const server = await serveTls(t)
  const literal = { origin: `https://127.0.0.1:${server.port}` }
  const proxy = await proxyFor(t, { allow: here(server, literal), lookup })
  const host = `secure.test:${server.port}`
  const tls = await encrypt(await tunnelTo(proxy, host), { servername: 'SECURE.test' })
  tls.write(get)
  assert.match(await text(tls), /encrypted$/)
  const other = await encrypt(await tunnelTo(proxy, `127.0.0.1:${server.port}`), { servername: '', host: '127.0.0.1' })
  other.write(get)
  assert.match(await text(other), /encrypted$/)
  assert.equal(server.seen.length, 2)

  // Without the proxy the server takes any name.
  const direct = connectTls({ port: server.port, ca: testCertificate, servername: 'other.test', ...unchecked })
  direct.write(get)
  assert.match(await text(direct), /encrypted$/)

  for (const servername of ['other.test', 'secure.test.other.test', '127.0.0.1.secure.test', '']) {
    await assert.rejects(encrypt(await tunnelTo(proxy, host), { servername, ...unchecked }), /unrecognized name|alert/i)
  }
  const last = await tunnelTo(proxy, `127.0.0.1:${server.port}`)
  await assert.rejects(encrypt(last, { servername: 'other.test', ...unchecked }), /unrecognized name|alert/i)
  assert.equal(server.seen.length, 3)
})

/** For controls and attackers: they do not look at the certificate. */
const unchecked: ConnectionOptions = { checkServerIdentity: () => undefined }

test('51: a tunnel to an https origin forwards only TLS', async (t) => {
  const got: Uint8Array[] = []
  const server = await serveRaw(t, (socket) => void socket.on('data', (piece) => got.push(piece)))
  const proxy = await proxyFor(t, { allow: here({ origin: `https://secure.test:${server.port}` }), lookup })
  const hello = Buffer.from([22, 3, 1, 0, 4, 1, 0, 0, 0])
  const starts: (string | Uint8Array)[] = [
    ...[
      'GET / HTTP/1.1\r\n\r\n',
      'SSH-2.0-x\r\n',
      'EHLO there\r\n',
      '\0\0\0\0\0\0',
      hello,
      Uint8Array.of(22, 3, 1, 255, 255),
    ],
    ...[Uint8Array.of(22, 2, 1, 0, 4, 1, 0, 0, 0), Uint8Array.of(22, 3, 1, 0, 0), Uint8Array.of(21, 3, 3, 0, 2, 2, 40)],
  ]
  for (const start of starts) {
    const socket = await tunnelTo(proxy, `secure.test:${server.port}`)
    socket.write(start)
    await received(socket)
  }
  assert.equal(server.connections(), starts.length)
  assert.deepEqual(got, [])
})

test('a tunnel parses a ClientHello that arrives byte by byte or together with the CONNECT request', async (t) => {
  const server = await serveTls(t)
  const proxy = await proxyFor(t, { allow: here(server), lookup })
  const host = `secure.test:${server.port}`
  const hello = await clientHello(t)
  const slow = await tunnelTo(proxy, host)
  slow.setNoDelay(true)
  for (const byte of hello) {
    slow.write(Uint8Array.of(byte))
    await new Promise(setImmediate)
  }
  assert.equal((await once(slow, 'data'))[0][0], 22)
  slow.destroy()

  const eager = proxy.open()
  eager.write(Buffer.concat([Buffer.from(`CONNECT ${host} HTTP/1.1\r\n\r\n`), hello]))
  let answer = ''
  while (!answer.includes('\r\n\r\n\x16')) answer += (await once(eager, 'data'))[0].toString('latin1')
  eager.destroy()
})

/** The first bytes of a client that wants secure.test. */
async function clientHello(t: TestContext): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<Buffer>()
  const server = await serveRaw(t, (socket) => void socket.once('data', resolve))
  const client = connectTls({ port: server.port, servername: 'secure.test' }).on('error', () => {})
  const hello = await promise
  client.destroy()
  return hello
}

test('an egress rule with methods refuses tunnels with a reason and allows plain requests', async (t) => {
  const server = await serveTls(t)
  const allow = [{ origin: server.origin, methods: ['GET'], private: true }]
  const { send } = await proxyFor(t, { allow, lookup, ca: testCertificate })
  const host = `secure.test:${server.port}`
  const refused = await send(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  assert.match(refused, /^HTTP\/1.1 403 .*\r\n\r\nEGRESS_DENIED: .*counts as https and no rule with methods/s)
  assert.match(await send(`GET https://${host}/x HTTP/1.1\r\nHost: ${host}\r\n\r\n`), /encrypted$/)
  assert.match(await send(`POST https://${host}/x HTTP/1.1\r\nHost: ${host}\r\n\r\n`), /^HTTP\/1.1 403 /)
  assert.deepEqual(server.seen, ['GET /x'])
})

test('a tunnel to an http origin accepts one request and checks it like a plain one', async (t) => {
  const server = await serve(t)
  const victim = await serve(t)
  const allow = [{ origin: `http://plain.test:${server.port}`, methods: ['GET'], private: true }, ...here(victim)]
  const proxy = await proxyFor(t, { allow, only: [`http://plain.test:${server.port}`], lookup })
  const host = `plain.test:${server.port}`
  const ask = async (...lines: readonly string[]): Promise<string> => {
    const socket = await tunnelTo(proxy, host)
    socket.write([...lines, '', ''].join('\r\n'))
    return received(socket)
  }
  assert.match(await ask('GET //a?b HTTP/1.1', `Host: ${host}`), /^HTTP\/1.1 200 .*ok$/s)
  assert.deepEqual(
    server.seen.map(({ url, headers }) => `${headers.host} ${url}`),
    [`${host} //a?b`],
  )
  const eager = [`CONNECT ${host} HTTP/1.1`, '', 'GET /c HTTP/1.1', `Host: ${host}`, '', '']
  assert.match(
    await proxy.send(eager.join('\r\n')),
    /^HTTP\/1.1 200 Connection established\r\n\r\nHTTP\/1.1 200 .*ok$/s,
  )
  const v = victim.origin.slice(7)
  const refused = [
    ...[await ask('POST / HTTP/1.1', `Host: ${host}`, 'Content-Length: 0'), await ask('GET / HTTP/1.1', `Host: ${v}`)],
    ...[await ask(`GET http://${v}/ HTTP/1.1`, `Host: ${v}`), await ask(`GET http://${host}/ HTTP/1.1`)],
    ...[
      await ask(`CONNECT ${v} HTTP/1.1`, `Host: ${v}`),
      await ask(`CONNECT ${host} HTTP/1.1`, `Host: ${host}`),
      await ask('GET \\x HTTP/1.1'),
      await ask('\x16\x03\x01\0\x05'),
    ],
    ...[await ask('GET / HTTP/1.1', `Host: ${host}`, 'Upgrade: websocket', 'Connection: upgrade')],
    ...[await ask('GET / HTTP/1.1', `Host: ${host}`, '', `GET / HTTP/1.1`, `Host: ${v}`)],
  ]
  for (const answer of refused) assert.match(answer, /^HTTP\/1.1 40[03] .*\r\n\r\n[A-Z_]+: [^\n]*\n$/s)
  assert.equal(victim.connections(), 0)
})

test('a tunnel ends when its server closes the connection', async (t) => {
  const server = await serveRaw(t, (socket) => void socket.once('data', () => socket.destroy()))
  const proxy = await proxyFor(t, { allow: here({ origin: `https://secure.test:${server.port}` }), lookup })
  const socket = await tunnelTo(proxy, `secure.test:${server.port}`)
  socket.write(await clientHello(t))
  assert.equal(await received(socket), '')
})

test('requests and tunnels of a sandbox use the egress slots of its tenant', async (t) => {
  const plain = await serve(t)
  const secure = await serveTls(t)
  const proxy = await proxyFor(t, {
    allow: here(plain, secure),
    ca: testCertificate,
    lookup,
    tenant: 'acme',
  })
  const host = plain.origin.slice('http://'.length)
  assert.match(await proxy.send(`GET ${plain.origin}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`), / 200 /)
  const tls = await encrypt(await tunnelTo(proxy, `secure.test:${secure.port}`))
  tls.write(get)
  assert.match(await text(tls), / 200 /)
  assert.deepEqual(proxy.tenants, ['acme', 'acme'])
})
