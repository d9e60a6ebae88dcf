import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { testAuthenticator } from '../../conformance/authenticator.ts'
import { switchedResponses } from '../../observe/unresponsive.fixture.ts'
import { memoryKeys } from '../../storage/keys/api-keys.fixture.ts'
import type { Nonce } from '../../storage/keys/api-keys.ts'
import type { Presented } from './authenticator.ts'
import { createKeyControl } from './key-control.ts'
import { createLiveKeys } from './live-keys.ts'
import { signedHeaders, somePair, type ToSign } from './signed-request.fixture.ts'
import { signedRequestAuthenticator } from './signed-request.ts'

const maker = { principal: 'owner', tenant: 'acme', permissions: ['*'] }
const { signal } = new AbortController()
const refused = { code: 'UNAUTHENTICATED' }

async function rig() {
  const records = memoryKeys()
  const control = createKeyControl(records, async () => undefined)
  const { privateKey, publicKey } = somePair()
  const { key } = await control.create({ name: 'bot', publicKey }, maker)
  const used = new Set<string>()
  const isDown = { now: false }
  const clock = { ms: Date.now() }
  const stuck = { now: false, sent: Promise.withResolvers<void>() }
  const nonces = {
    async use(items: readonly Nonce[]) {
      if (stuck.now) {
        stuck.sent.resolve()
        await new Promise(() => undefined)
      }
      if (isDown.now) throw new ToolError('STORE_UNAVAILABLE', 'The database is unavailable.')
      return items.map(({ keyId, nonce }) => used.size < used.add(`${keyId} ${nonce}`).size)
    },
  }
  const health = switchedResponses()
  const live = createLiveKeys(records, { health })
  const authenticator = signedRequestAuthenticator(live, nonces, { now: () => clock.ms, health })
  const request = (given: Partial<ToSign> = {}): Presented => ({
    method: given.method ?? 'GET',
    path: given.path ?? '/v1/calls',
    headers: signedHeaders({ keyId: key.id, privateKey, ...given }),
  })
  return { authenticator, control, request, key, clock, isDown, stuck, health }
}

testAuthenticator('signed request', async () => {
  const { authenticator, control, request, key, clock, isDown } = await rig()
  const identity = { tenant: 'acme', principal: 'key:bot', permissions: [], roles: [] }
  const bearer = await control.create({ name: 'sent' }, maker)
  const seconds = Math.floor(clock.ms / 1_000)
  const all = '"@method" "@authority" "@path" "@query" "content-digest"'
  const params = `;created=${seconds};keyid="${key.id}";nonce="${'n'.repeat(32)}"`
  return {
    authenticator,
    good: async () => ({ presented: request(), identity }),
    async wrong(good) {
      const changed = (headers: { [name: string]: string | undefined }): Presented => ({
        ...good,
        headers: { ...good.headers, ...headers } as Presented['headers'],
      })
      return {
        'another method': { ...good, method: 'POST' },
        'another path': { ...good, path: '/v1/keys' },
        'a query': { ...good, path: '/v1/calls?limit=1' },
        'another host': changed({ host: 'elsewhere' }),
        'another digest': changed({ 'content-digest': `sha-256=:${hash('sha256', 'x', 'base64')}:` }),
        'no digest': changed({ 'content-digest': undefined }),
        'two digests': changed({
          'content-digest': `${good.headers['content-digest']}, ${good.headers['content-digest']}`,
        }),
        'no signature': changed({ signature: undefined }),
        'no input': changed({ 'signature-input': undefined }),
        'another label': changed({ signature: String(good.headers.signature).replace('sig1', 'sig2') }),
        'a key beside it': changed({ authorization: `Bearer ${bearer.text}` }),
        'too old': request({ created: seconds - 301 }),
        'from the future': request({ created: seconds + 120 }),
        'another algorithm': request({ alg: 'hmac-sha256' }),
        'another private key': request({ privateKey: somePair().privateKey }),
        'an unknown key': request({ keyId: '0'.repeat(12) }),
        'a key that is sent': request({ keyId: bearer.key.id }),
        'SQL for a key': request({ keyId: `' or 1=1 --` }),
        'a short nonce': request({ nonce: 'n' }),
        'no method': request({ covered: all.replace('"@method" ', '') }),
        'no host': request({ covered: all.replace('"@authority" ', '') }),
        'no path': request({ covered: all.replace('"@path" ', '') }),
        'no query': request({ covered: all.replace('"@query" ', '') }),
        'no body': request({ covered: all.replace(' "content-digest"', '') }),
        'nothing at all': request({ covered: '' }),
        'no algorithm': request({ params }),
        'no nonce': request({ params: `;created=${seconds};keyid="${key.id}";alg="ed25519"` }),
        'no time': request({ params: `;keyid="${key.id}";nonce="${'n'.repeat(32)}";alg="ed25519"` }),
        'a time twice': request({ params: `${params};created=${seconds}` }),
        'something more': request({ params: `${params};alg="ed25519";tag="x"` }),
      }
    },
    cut() {
      isDown.now = true
    },
  }
})

test('a signed request is accepted once, and a nonce counts for its own key only', async () => {
  const { authenticator, control, request } = await rig()
  const presented = request({ nonce: 'n'.repeat(32) })
  assert.ok(await authenticator.authenticate(presented, signal))
  await assert.rejects(authenticator.authenticate(presented, signal), refused)
  await assert.rejects(
    authenticator.authenticate(request({ nonce: 'n'.repeat(32), path: '/v1/tools' }), signal),
    refused,
  )
  const { privateKey, publicKey } = somePair()
  const { key } = await control.create({ name: 'second', publicKey }, maker)
  assert.ok(await authenticator.authenticate(request({ nonce: 'n'.repeat(32), keyId: key.id, privateKey }), signal))
  const storm = await Promise.allSettled(
    Array.from({ length: 20 }, (_, index) => index && 1).map(() =>
      authenticator.authenticate(request({ nonce: 'm'.repeat(32) }), signal),
    ),
  )
  assert.equal(storm.filter(({ status }) => status === 'fulfilled').length, 1)
})

test('a signed request is valid for five minutes, with its parameters in any order', async () => {
  const { authenticator, request, clock, key } = await rig()
  const seconds = Math.floor(clock.ms / 1_000)
  clock.ms = seconds * 1_000
  assert.ok(await authenticator.authenticate(request({ created: seconds - 300 }), signal))
  assert.ok(await authenticator.authenticate(request({ created: seconds + 60 }), signal))
  const params = `;alg="ed25519";nonce="${'p'.repeat(32)}";keyid="${key.id}";created=${seconds}`
  assert.ok(await authenticator.authenticate(request({ params, label: 'gantry' }), signal))
})

test('a stream outlives the validity of its signed request, and later checks verify the signature alone', async () => {
  const { authenticator, request, clock } = await rig()
  const presented = request()
  assert.ok(await authenticator.authenticate(presented, signal))
  clock.ms += 60 * 60_000
  assert.ok(await authenticator.authenticate({ ...presented, again: true }, signal))
  await assert.rejects(authenticator.authenticate({ ...presented, path: '/v1/keys', again: true }, signal), refused)
  await assert.rejects(authenticator.authenticate(presented, signal), refused)
})

test('a header that changes what a request does must be covered by the signature', async () => {
  const { authenticator, request } = await rig()
  const usual = '"@method" "@authority" "@path" "@query" "content-digest"'
  const known = (presented: Presented): Promise<boolean> =>
    authenticator.authenticate(presented, signal).then(
      (found) => found !== undefined,
      () => false,
    )
  const significant = {
    'idempotency-key': 'order-7',
    'mcp-session-id': 's1',
    'mcp-protocol-version': '2025-11-25',
    'mcp-method': 'tools/call',
    'mcp-name': 'demo:add',
    'mcp-param-region': 'eu',
    'last-event-id': '7',
    range: 'bytes=0-9',
    'if-range': '"a"',
    'if-none-match': '"a"',
  }
  for (const [name, value] of Object.entries(significant)) {
    const headers = { [name]: value }
    const without = (presented: Presented): Presented => {
      const { [name]: _dropped, ...rest } = presented.headers
      return { ...presented, headers: rest }
    }
    const signed = request({ headers })
    assert.equal(await known({ ...signed, headers: { ...signed.headers, [name]: 'other' } }), false, `${name}, changed`)
    assert.equal(await known(without(signed)), false, `${name}, dropped`)
    assert.equal(await known(request({ headers, covered: usual })), false, `${name}, outside of the signature`)
    assert.equal(await known(request({ headers, covered: `${usual} "${name}" "${name}"` })), false, `${name}, twice`)
    assert.equal(await known(signed), true, name)
  }
  assert.ok(await known(request({ headers: significant })), 'all of them at once')
  assert.ok(
    await known(request({ headers: { traceparent: 'x', accept: '*/*' }, covered: usual })),
    'others need not be',
  )
  assert.ok(await known(request({ headers: { accept: '*/*' } })), 'others may be')
  assert.equal(await known(request({ covered: `${usual} "constructor"` })), false, 'a header that is not there')
})

test('the authenticator returns the digest that the body must have', async () => {
  const { authenticator, request } = await rig()
  const known = await authenticator.authenticate(request({ method: 'POST', body: '{"tool":"demo:add"}' }), signal)
  assert.deepEqual(known?.bodyDigest, hash('sha256', '{"tool":"demo:add"}', 'buffer'))
})

test('a request is refused at once when the check of its nonce hangs on a database that stops answering', async () => {
  const { authenticator, request, stuck, health } = await rig()
  const unavailable = { code: 'STORE_UNAVAILABLE', retryable: true, details: { retryAfterMs: 1_000 } }
  stuck.now = true
  const hanging = assert.rejects(authenticator.authenticate(request(), signal), unavailable)
  await stuck.sent.promise
  health.fall()
  await hanging
  await assert.rejects(authenticator.authenticate(request(), signal), unavailable)
})
