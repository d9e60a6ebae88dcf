import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request as httpRequest } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { type TestContext, test } from 'node:test'
import { anyInstance, clockWindowMs, digestOf, newNonce, type SignedParts, signRequest } from '../protocol/signature.ts'
import { startHost, type TestHost, testKey } from '../test-host.fixture.ts'

interface Sent {
  readonly method: string
  readonly path: string
  readonly body: string
  readonly header: string
}

const none = ''
const limits = {
  wallMs: 5_000,
  cpuMs: 5_000,
  memoryBytes: 67_108_864,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 1_000,
  stderrBytes: 1_000,
}
const spec = JSON.stringify({ limits })

async function openHost(t: TestContext): Promise<TestHost> {
  const host = await startHost({}, [])
  t.after(host.close)
  return host
}

function signed(host: TestHost, parts: Partial<SignedParts> & { readonly body?: string }, key = testKey): Sent {
  const { body = none, method = 'GET', path = '/v1/host', instance = anyInstance } = parts
  const { header } = signRequest(key, {
    created: Date.now(),
    nonce: newNonce(),
    authority: new URL(host.url).host,
    digest: digestOf(Buffer.from(body)),
    ...parts,
    method,
    path,
    instance,
  })
  return { method, path, body, header }
}

async function send({ url }: TestHost, { method, path, body, header }: Sent) {
  const call = httpRequest(new URL(path, url), {
    method,
    headers: { authorization: header, 'content-length': Buffer.byteLength(body) },
  })
  call.end(body)
  const [response] = await once(call, 'response')
  const document = JSON.parse((await buffer(response)).toString())
  return {
    status: response.statusCode,
    code: document.refused?.code,
    document,
    signature: response.headers['gantry-signature'],
  }
}

const refusedCodes = ({ records }: TestHost): readonly string[] =>
  records.flatMap((record) => (record.event === 'refused' ? [record.code] : []))

async function instanceOf(host: TestHost): Promise<string> {
  return (await send(host, signed(host, {}))).document.instance
}

test('a signed request is answered once, and its replay is refused and recorded', async (t) => {
  const host = await openHost(t)
  const request = signed(host, {})
  assert.equal((await send(host, request)).status, 200)
  const again = await send(host, request)
  assert.deepEqual([again.status, again.code, again.signature], [401, 'NONCE_USED', undefined])
  assert.deepEqual(
    host.records.map((record) => ({ ...record, time: '', address: '' })),
    [
      {
        time: '',
        event: 'refused',
        code: 'NONCE_USED',
        reason: 'The request was sent before.',
        key: 'test',
        address: '',
        method: 'GET',
        path: '/v1/host',
      },
    ],
  )
})

test('a nonce that was used for one request is refused for another', async (t) => {
  const host = await openHost(t)
  const nonce = newNonce()
  assert.equal((await send(host, signed(host, { nonce }))).status, 200)
  assert.equal((await send(host, signed(host, { nonce, path: '/v1/runtimes' }))).code, 'NONCE_USED')
})

test('a changed body is refused and recorded, and nothing is opened', async (t) => {
  const host = await openHost(t)
  const instance = await instanceOf(host)
  const request = signed(host, { method: 'PUT', path: '/v1/sandboxes/AAAAAAAAAAAAAAAA', instance, body: spec })
  const changed = { ...request, body: spec.replace('16', '64') }
  assert.equal(changed.body.length, request.body.length)
  assert.deepEqual([(await send(host, changed)).code, refusedCodes(host)], ['BODY_CHANGED', ['BODY_CHANGED']])
})

test('the signature of one path, method or host is refused for another', async (t) => {
  const host = await openHost(t)
  const request = signed(host, {})
  for (const changed of [
    { ...request, path: '/v1/runtimes' },
    { ...request, path: '/v1/host?after=1' },
    { ...request, method: 'DELETE' },
    signed(host, { authority: 'other.example:7421' }),
  ]) {
    assert.equal((await send(host, changed)).code, 'SIGNATURE_WRONG')
  }
  assert.deepEqual(new Set(refusedCodes(host)), new Set(['SIGNATURE_WRONG']))
  assert.equal((await send(host, request)).status, 200, 'a refused request does not use up the nonce')
})

test('an old timestamp, and one ahead of the clock, is refused and recorded', async (t) => {
  const host = await openHost(t)
  for (const away of [-clockWindowMs - 5_000, clockWindowMs + 5_000]) {
    assert.equal((await send(host, signed(host, { created: Date.now() + away }))).code, 'CLOCK')
  }
  assert.deepEqual(refusedCodes(host), ['CLOCK', 'CLOCK'])
})

test('a request without a signature, of an unknown key and of a wrong key is refused, and the answer is not signed', async (t) => {
  const host = await openHost(t)
  const unsigned = await send(host, { ...signed(host, {}), header: 'Bearer x' })
  assert.deepEqual([unsigned.code, unsigned.signature], ['UNSIGNED', undefined])
  const unknown = await send(host, signed(host, {}, { ...testKey, id: 'other' }))
  assert.deepEqual([unknown.code, unknown.signature], ['KEY_UNKNOWN', undefined])
  const wrong = await send(host, signed(host, {}, { ...testKey, key: 'w'.repeat(48) }))
  assert.deepEqual([wrong.code, wrong.signature], ['SIGNATURE_WRONG', undefined])
  assert.deepEqual(refusedCodes(host), ['UNSIGNED', 'KEY_UNKNOWN', 'SIGNATURE_WRONG'])
})

test('a request for a server that was restarted since is refused, so that it cannot be replayed or run there', async (t) => {
  const [before, host] = [await openHost(t), await openHost(t)]
  const instance = await instanceOf(before)
  const path = '/v1/sandboxes/AAAAAAAAAAAAAAAA'
  const found = await send(host, signed(host, { method: 'PUT', path, instance, body: spec }))
  assert.deepEqual([found.status, found.code, typeof found.signature], [409, 'INSTANCE_CHANGED', 'string'])
  const any = await send(host, signed(host, { method: 'PUT', path, body: spec }))
  assert.equal(any.code, 'INSTANCE_CHANGED', 'only requests that read may leave the instance open')
})

test('the body of a request that is refused by its signature is not read', async (t) => {
  const host = await openHost(t)
  const { header } = signed(host, {}, { ...testKey, key: 'w'.repeat(48) })
  const call = httpRequest(new URL('/v1/host', host.url), {
    method: 'PUT',
    headers: { authorization: header, 'content-length': 1_000_000_000 },
  })
  call.on('error', () => undefined)
  call.write('x'.repeat(1_000))
  const [response] = await once(call, 'response')
  assert.equal(response.statusCode, 401)
  response.resume()
  await once(call, 'close')
})
