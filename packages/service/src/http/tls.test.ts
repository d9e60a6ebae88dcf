import assert from 'node:assert/strict'
import { once } from 'node:events'
import { copyFileSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { Agent, request as ask, type RequestOptions } from 'node:https'
import { connect as connectPlain } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { connect, type TLSSocket } from 'node:tls'
import { type Certificate, makeAuthority } from '../../../../scripts/engines/certificates.ts'
import { exchange, startRig } from './http.fixture.ts'
import type { HttpServer } from './server.ts'
import type { TlsFiles } from './tls.ts'

const authority = makeAuthority()
const other = makeAuthority('Another authority')
after(() => {
  authority.remove()
  other.remove()
})

interface Heard {
  readonly status: number | undefined
  readonly headers: { readonly [name: string]: unknown }
  /** The serial number of the server's certificate. */
  readonly serial: string
}

/** One request over TLS with the authority of the tests, on its own connection unless an agent keeps one. */
function get(server: HttpServer, path: string, options: RequestOptions = {}): Promise<Heard> {
  return new Promise((resolve, reject) => {
    const { host, port } = server
    const sent = ask({ host, port, path, ca: authority.ca, agent: false, ...options }, (answer) => {
      const { serialNumber } = (answer.socket as TLSSocket).getPeerCertificate()
      answer
        .resume()
        .on('end', () => resolve({ status: answer.statusCode, headers: answer.headers, serial: serialNumber }))
    })
    sent.on('error', reject).end()
  })
}

/** The code of the error of a refused request. */
async function refusal(work: Promise<unknown>): Promise<unknown> {
  const error = await work.then(
    () => assert.fail('it was let in'),
    (thrown: unknown) => thrown,
  )
  return (error as NodeJS.ErrnoException).code
}

/** The certificate under fixed names, whose files are replaced later. */
function placed(name: string, certificate: Certificate): Certificate {
  const files = { certFile: join(authority.folder, `${name}.pem`), keyFile: join(authority.folder, `${name}.key`) }
  replace(certificate.certFile, files.certFile)
  replace(certificate.keyFile, files.keyFile)
  return files
}

/** Atomic: a reader sees the old file or the new one. */
function replace(from: string, to: string): void {
  copyFileSync(from, `${to}.next`)
  renameSync(`${to}.next`, to)
}

test('TLS changes nothing but the HSTS header', async (t) => {
  const { server } = await startRig(t, { tls: authority.issue() })
  assert.match(server.url, /^https:/)
  const { status, headers } = await get(server, '/healthz')
  assert.equal(status, 200)
  assert.equal(headers['strict-transport-security'], 'max-age=31536000')
  assert.equal(headers['x-content-type-options'], 'nosniff')
  assert.equal((await get(server, '/v1/calls')).status, 401)
  const plain = await startRig(t)
  assert.equal((await plain.ask('/healthz')).headers.get('strict-transport-security'), null)
})

test('a client refuses a server of another authority or another name', async (t) => {
  const { server } = await startRig(t, { tls: other.issue() })
  assert.match(String(await refusal(get(server, '/healthz'))), /UNABLE_TO_VERIFY|SELF_SIGNED|UNABLE_TO_GET_ISSUER/)
  const { server: elsewhere } = await startRig(t, { tls: authority.issue({ hosts: ['api.example.com'] }) })
  assert.equal(await refusal(get(elsewhere, '/healthz')), 'ERR_TLS_CERT_ALTNAME_INVALID')
  const named = { servername: 'api.example.com' }
  assert.equal((await get(elsewhere, '/healthz', named)).status, 200)
})

test('TLS before 1.2 and plain HTTP are not answered', async (t) => {
  const { server } = await startRig(t, { tls: authority.issue() })
  const old = { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' } as const
  await assert.rejects(get(server, '/healthz', old), /alert protocol version/)
  assert.equal((await get(server, '/healthz', { maxVersion: 'TLSv1.2' })).status, 200)
  const said = await exchange(server, ['GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n']).catch(() => '')
  assert.doesNotMatch(said, /HTTP\/1\.1 2/)
})

test('with a client authority, only clients with its certificates are accepted', async (t) => {
  const tls = { ...authority.issue(), clientCaFile: authority.caFile }
  const { server } = await startRig(t, { tls })
  const as = ({ certFile, keyFile }: Certificate) => ({ cert: readFileSync(certFile), key: readFileSync(keyFile) })
  const known = as(authority.issue({ name: 'gateway', hosts: ['gateway'] }))
  assert.equal((await get(server, '/healthz', known)).status, 200)
  assert.equal((await get(server, '/v1/calls', known)).status, 401)
  const strangers = [{}, as(other.issue({ name: 'gateway' })), as(authority.issue({ days: -1 }))]
  for (const stranger of strangers) {
    assert.match(String(await refusal(get(server, '/healthz', stranger))), /^(ECONNRESET|EPIPE|ERR_SSL_.*)$/)
  }
})

test('connections that never finish the handshake, and anonymous ones, lock no caller out', async (t) => {
  const limits = { connections: 3, headersMs: 600_000, unauthenticatedMs: 600_000 }
  const { server, key } = await startRig(t, { tls: authority.issue(), limits })
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: authority.ca })
  t.after(() => agent.destroy())
  const headers = { authorization: `Bearer ${key}` }
  const caller = await get(server, '/v1/workers', { agent, headers })
  assert.equal(caller.status, 200)
  for (let count = 0; count < 4; count += 1) {
    const silent = connectPlain(server.port, server.host).on('error', () => undefined)
    t.after(() => silent.destroy())
    await once(silent, 'connect')
    const anonymous = connect({ port: server.port, host: server.host, ca: authority.ca }).on('error', () => undefined)
    t.after(() => anonymous.destroy())
    await once(anonymous, 'secureConnect')
  }
  assert.equal((await get(server, '/v1/workers', { headers })).status, 200, 'a new one')
  const sockets = Object.values(agent.freeSockets).flat()
  assert.equal((await get(server, '/v1/workers', { agent, headers })).status, 200, 'the one that was there')
  assert.deepEqual(Object.values(agent.freeSockets).flat(), sockets, 'on the same connection')
})

test('a replaced certificate is used for new connections, and open ones stay', async (t) => {
  const [first, second] = [authority.issue(), authority.issue()]
  const tls = { ...placed('replaced', first), lookEveryMs: 5 }
  const { server, lines } = await startRig(t, { tls })
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca: authority.ca })
  t.after(() => agent.destroy())
  const before = await get(server, '/healthz', { agent })
  placed('replaced', second)
  let now = before
  while (now.serial === before.serial) {
    now = await get(server, '/healthz')
    await pause(5)
  }
  // The earlier connection is still open, with the old certificate.
  assert.equal((await get(server, '/healthz', { agent })).serial, before.serial)
  assert.ok(lines.some(({ level, message }) => level === 'info' && /was replaced/.test(message)))
})

test('unusable files leave the old certificate in place, and are logged once', async (t) => {
  const first = authority.issue()
  const tls = { ...placed('broken', first), lookEveryMs: 5 }
  const { server, lines } = await startRig(t, { tls })
  const { serial } = await get(server, '/healthz')
  const errors = () => lines.filter(({ level }) => level === 'error')
  const until = async (count: number): Promise<void> => {
    while (errors().length < count) await pause(5)
  }
  writeFileSync(tls.certFile, 'nonsense')
  await until(1)
  replace(authority.issue().certFile, tls.certFile)
  await until(2)
  placed('broken', authority.issue({ days: -1 }))
  await until(3)
  assert.equal((await get(server, '/healthz')).serial, serial)
  await pause(50)
  assert.equal(errors().length, 3)
  const good = authority.issue()
  placed('broken', good)
  while ((await get(server, '/healthz')).serial === serial) await pause(5)
})

test('a server does not start with an unusable certificate', async (t) => {
  const good = authority.issue()
  const wrong: [TlsFiles, RegExp][] = [
    [{ ...good, certFile: '/nowhere.pem' }, /certFile names the file \/nowhere.pem/],
    [{ ...good, keyFile: authority.issue().keyFile }, /does not hold a certificate and its key/],
    [{ ...good, certFile: good.keyFile }, /certFile is no certificate/],
    [authority.issue({ days: -1 }), /expired on/],
    [{ ...good, clientCaFile: '/nowhere.pem' }, /clientCaFile names/],
  ]
  for (const [tls, words] of wrong) {
    await assert.rejects(startRig(t, { tls }), { code: 'CONFIG_INVALID', message: words })
  }
})

test('close ends idle connections and connections in their handshake', async (t) => {
  const { server } = await startRig(t, { tls: authority.issue() })
  const gone = (socket: {
    once(event: 'close', listener: () => void): unknown
    on(event: 'error', listener: () => void): unknown
  }) =>
    new Promise<void>((resolve) => {
      socket.on('error', () => undefined)
      socket.once('close', () => resolve())
    })
  const silent = connectPlain(server.port, server.host)
  await new Promise((resolve) => silent.once('connect', resolve))
  const quiet = connect({ host: server.host, port: server.port, ca: authority.ca })
  await new Promise((resolve) => quiet.once('secureConnect', resolve))
  await get(server, '/healthz')
  const ends = [gone(silent), gone(quiet)]
  await server.close({ graceMs: 30_000 })
  await Promise.all(ends)
})

test('a page loaded without TLS is of another origin than a service with TLS', async (t) => {
  const { server } = await startRig(t, { tls: authority.issue() })
  const host = `127.0.0.1:${server.port}`
  const from = (origin: string): Promise<Heard> => get(server, '/healthz', { headers: { host, origin } } as never)
  assert.equal((await from(`https://${host}`)).status, 200)
  assert.equal((await from(`http://${host}`)).status, 403)
  assert.equal((await from('https://evil.example')).status, 403)
})
