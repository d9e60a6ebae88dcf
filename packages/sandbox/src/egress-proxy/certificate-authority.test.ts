import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { test } from 'node:test'
import { connect, createServer } from 'node:tls'
import { createCertificateAuthority, integer, oid, sequence, text } from './certificate-authority.ts'
import { tempFolder } from './proxy.fixture.ts'

test('the DER encoder follows X.690', () => {
  assert.equal(integer(Uint8Array.of(0, 0)).toString('hex'), '020100')
  assert.equal(integer(Uint8Array.of(0x7f)).toString('hex'), '02017f')
  assert.equal(integer(Uint8Array.of(0, 0x80)).toString('hex'), '02020080')
  assert.equal(oid('1.2.840.113549').toString('hex'), '06062a864886f70d')
  assert.equal(sequence(Buffer.alloc(127)).subarray(0, 2).toString('hex'), '307f')
  assert.equal(sequence(Buffer.alloc(128)).subarray(0, 3).toString('hex'), '308180')
  assert.equal(text(0x0c, 'x'.repeat(300)).subarray(0, 4).toString('hex'), '0c82012c')
})

test('a certificate is valid for its host alone, signed by the authority, and not a CA', () => {
  const authority = createCertificateAuthority()
  const ca = new X509Certificate(authority.certificate)
  assert.ok(ca.ca && ca.verify(ca.publicKey))
  const hosts = [
    ['api.example.com', 'DNS:api.example.com'],
    ['127.0.0.1', 'IP Address:127.0.0.1'],
    ['[2001:db8::1]', 'IP Address:2001:DB8:0:0:0:0:0:1'],
    ['[::1]', 'IP Address:0:0:0:0:0:0:0:1'],
    ['[1:2:3:4:5:6:7:8]', 'IP Address:1:2:3:4:5:6:7:8'],
  ] as const
  for (const [host, name] of hosts) {
    const leaf = new X509Certificate(authority.pairFor(host).certificate)
    assert.equal(leaf.subjectAltName, name)
    assert.ok(!leaf.ca && leaf.checkIssued(ca) && leaf.verify(ca.publicKey))
    assert.deepEqual(leaf.keyUsage, ['1.3.6.1.5.5.7.3.1'])
  }
  const other = new X509Certificate(createCertificateAuthority().certificate)
  const leaf = new X509Certificate(authority.pairFor('api.example.com').certificate)
  assert.ok(!leaf.verify(other.publicKey) && !leaf.checkIssued(other))
  assert.equal(leaf.checkHost('api.example.com'), 'api.example.com')
  assert.equal(leaf.checkHost('example.com'), undefined)
})

test('openssl accepts the chain in strict mode and refuses it for another name or authority', async (t) => {
  const folder = await tempFolder(t)
  const [authority, other] = [createCertificateAuthority(), createCertificateAuthority()]
  const files = {
    ca: authority.certificate,
    other: other.certificate,
    leaf: authority.pairFor('api.example.com').certificate,
  }
  for (const [name, pem] of Object.entries(files)) await writeFile(join(folder, name), pem)
  const verify = (ca: string, host: string): string =>
    execFileSync(
      'openssl',
      ['verify', '-x509_strict', '-purpose', 'sslserver', '-verify_hostname', host, '-CAfile', ca, 'leaf'],
      { cwd: folder, encoding: 'utf8', stdio: 'pipe' },
    )
  assert.match(verify('ca', 'api.example.com'), /leaf: OK/)
  assert.throws(() => verify('ca', 'other.example.com'))
  assert.throws(() => verify('other', 'api.example.com'))
})

test('a TLS client that trusts the authority accepts the certificate for the host; other clients refuse it', async (t) => {
  const authority = createCertificateAuthority()
  const server = createServer({ SNICallback: (name, give) => give(null, authority.contextFor(name)) })
  server.on('secureConnection', (socket) => socket.on('error', () => {}).end('hello')).on('tlsClientError', () => {})
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  const shake = async (ca: string[]): Promise<string> => {
    const socket = connect({ port, host: '127.0.0.1', servername: 'api.example.com', ca })
    t.after(() => socket.destroy())
    await once(socket, 'secureConnect')
    return socket.getPeerCertificate().subjectaltname ?? ''
  }
  assert.equal(await shake([authority.certificate]), 'DNS:api.example.com')
  await assert.rejects(shake([createCertificateAuthority().certificate]))
  assert.equal(authority.contextFor('a.example'), authority.contextFor('a.example'))
})
