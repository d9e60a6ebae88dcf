import assert from 'node:assert/strict'
import { createServer } from 'node:https'
import { createServer as createRawServer } from 'node:net'
import { text } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { fails, guard, here, listen, serve, testCertificate, testKey } from './egress.fixture.ts'
import type { HostLookup } from './options.ts'

const loopback: HostLookup = async () => [{ address: '127.0.0.1', family: 4 }]

/** An HTTPS server for secure.test that notes what it saw of its clients. */
async function serveTls(t: TestContext, more: { maxVersion?: 'TLSv1.1' } = {}, location?: string) {
  const names: unknown[] = []
  const options = { key: testKey, cert: testCertificate, ...more }
  const server = createServer(
    { ...options, ...(more.maxVersion && { minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' }) },
    (_, response) => {
      if (location === undefined) response.end('encrypted')
      else response.writeHead(302, { location }).end()
    },
  )
  server.on('secureConnection', (socket) => names.push(socket.servername))
  const { port } = await listen(t, server)
  return { origin: `https://secure.test:${port}`, port, names }
}

test('an untrusted certificate is refused before anything is sent, and accepted when its CA is configured', async (t) => {
  const server = await serveTls(t)
  const allow = here(server)
  const strict = guard(t, { allow, lookup: loopback })
  const unavailable = fails('BACKEND_UNAVAILABLE', { effect: 'none', retryable: true })
  await assert.rejects(strict.get(server.origin, { method: 'POST', body: 'x' }), unavailable)
  assert.deepEqual(
    strict.events.map(({ outcome, reason }) => [outcome, reason]),
    [['failed', 'DEPTH_ZERO_SELF_SIGNED_CERT']],
  )
  assert.deepEqual(server.names, [])

  for (const ca of [testCertificate, Buffer.from(testCertificate), [testCertificate]]) {
    const { get } = guard(t, { allow, lookup: loopback, ca })
    assert.equal(await (await get(server.origin)).text(), 'encrypted')
  }
  assert.deepEqual(server.names, Array(3).fill('secure.test'))
})

test('a certificate for another name is refused, even with NODE_TLS_REJECT_UNAUTHORIZED=0', async (t) => {
  const server = await serveTls(t)
  const origin = `https://other.test:${server.port}`
  const { get } = guard(t, { allow: here({ origin }), lookup: loopback, ca: testCertificate })
  const before = process.env.NODE_TLS_REJECT_UNAUTHORIZED
  process.env.NODE_TLS_REJECT_UNAUTHORIZED = '0'
  t.after(() => {
    if (before === undefined) delete process.env.NODE_TLS_REJECT_UNAUTHORIZED
    else process.env.NODE_TLS_REJECT_UNAUTHORIZED = before
  })
  await assert.rejects(get(origin), fails('BACKEND_UNAVAILABLE'))
  const plain = guard(t, { allow: here({ origin }), lookup: loopback })
  await assert.rejects(plain.get(origin), fails('BACKEND_UNAVAILABLE'))
})

test('an IP address is verified against the IP addresses of the certificate', async (t) => {
  const { port } = await serveTls(t)
  const { get } = guard(t, { allow: here({ origin: `https://127.0.0.1:${port}` }), ca: testCertificate })
  assert.equal(await (await get(`https://127.0.0.1:${port}/`)).text(), 'encrypted')
  const other = guard(t, { allow: here({ origin: `https://127.0.0.2:${port}` }), ca: testCertificate })
  await assert.rejects(other.get(`https://127.0.0.2:${port}/`), fails('BACKEND_UNAVAILABLE'))
})

test('TLS before 1.2 is refused', async (t) => {
  const server = await serveTls(t, { maxVersion: 'TLSv1.1' })
  const { get } = guard(t, { allow: here(server), lookup: loopback, ca: testCertificate })
  await assert.rejects(get(server.origin), fails('BACKEND_UNAVAILABLE'))
})

test('a redirect from https to http is refused, even when rules allow both', async (t) => {
  const plain = await serve(t)
  const server = await serveTls(t, {}, plain.origin)
  const { get } = guard(t, { allow: here(server, plain), lookup: loopback, ca: testCertificate })
  await assert.rejects(get(server.origin, { redirects: 1 }), fails('EGRESS_DENIED'))
  assert.equal(plain.connections(), 0)
})

test('a server without TLS fails with BACKEND_UNAVAILABLE', async (t) => {
  const plain = await serve(t)
  const origin = `https://secure.test:${plain.port}`
  const { get } = guard(t, { allow: here({ origin }), lookup: loopback })
  await assert.rejects(get(origin), fails('BACKEND_UNAVAILABLE', { effect: 'none' }))
})

test('a raw connection uses its own certificates, server name and ALPN protocols', async (t) => {
  const shown: unknown[] = []
  const server = createTlsServer(
    {
      key: testKey,
      cert: testCertificate,
      ca: testCertificate,
      requestCert: true,
      rejectUnauthorized: true,
      ALPNProtocols: ['h2'],
    },
    (socket) => {
      shown.push([socket.servername, socket.alpnProtocol, socket.getPeerCertificate().subject?.CN])
      socket.end('hello')
    },
  )
  server.on('tlsClientError', () => {})
  const { port } = await listen(t, server)
  const { egress } = guard(t, { allow: here({ origin: `https://127.0.0.1:${port}` }) })
  const target = { owner: 'grpc:x', host: '127.0.0.1', port, signal: t.signal }
  const tls = { ca: testCertificate, cert: testCertificate, key: testKey, alpn: ['h2'], servername: 'secure.test' }
  const socket = await egress.connect({ ...target, tls })
  assert.equal(await text(socket), 'hello')
  assert.deepEqual(shown, [['secure.test', 'h2', 'Gantry test']])

  await assert.rejects(egress.connect({ ...target, tls: { alpn: ['h2'] } }), fails('BACKEND_UNAVAILABLE'))
  await assert.rejects(
    egress.connect({ ...target, tls: { ...tls, ca: 'no certificate' } }),
    fails('BACKEND_UNAVAILABLE'),
  )
  await assert.rejects(egress.connect(target), fails('EGRESS_DENIED'))
})

test('a tunnel is checked as https and dialled without TLS, and rules for http or for methods do not allow it', async (t) => {
  const plain = createRawServer((socket) => socket.end('hello'))
  const { port } = await listen(t, plain)
  const target = { owner: 'sandbox:1', host: '127.0.0.1', port, tunnel: true, signal: t.signal } as const
  const { egress } = guard(t, { allow: here({ origin: `https://127.0.0.1:${port}` }) })
  assert.equal(await text(await egress.connect(target)), 'hello')
  await assert.rejects(egress.connect({ ...target, only: [`http://127.0.0.1:${port}`] }), fails('EGRESS_DENIED'))

  const other = guard(t, { allow: here({ origin: `http://127.0.0.1:${port}` }) })
  await assert.rejects(other.egress.connect(target), fails('EGRESS_DENIED'))
  other.egress.setRules([{ origin: `https://127.0.0.1:${port}`, private: true, methods: ['GET'] }])
  await assert.rejects(other.egress.connect(target), fails('EGRESS_DENIED'))
  assert.equal(await text(await egress.connect(target)), 'hello')
})
