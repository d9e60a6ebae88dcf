import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createClient } from '@gantry/client'
import { signedHeaders, somePair } from '../src/http/authentication/signed-request.fixture.ts'
import { startIssuer } from '../src/http/authentication/token.fixture.ts'
import type { Route } from '../src/http/route.ts'
import { allRoutes } from '../src/http/routes.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { calling, type IdentityRig, raw, startIdentityRig } from './identity.fixture.ts'

const words =
  'The request is not authenticated; send Authorization: Bearer with a valid key or token, or a signed request.'

/** The one response to every unauthenticated caller. */
const unknown = [
  401,
  {
    error: {
      code: 'UNAUTHENTICATED',
      message: words,
      stage: 'authorize',
      retryable: false,
      effect: 'none',
      details: {},
    },
  },
] as const

test('attacks on identity over HTTP', async (t) => {
  // One database for all subtests: creating one takes longer than a subtest.
  const database = await pgliteDatabase(t)
  const rigFor = (own: TestContext, given?: Parameters<typeof startIdentityRig>[2]): Promise<IdentityRig> =>
    startIdentityRig(own, database, given)

  await t.test('107: an identity claimed in a body, a header or a query is ignored or rejected', async (own) => {
    const { make, ask, seen, service } = await rigFor(own)
    const { text } = await make({ name: 'plain', permissions: [] })
    const forged = {
      'x-tenant': 'other',
      'x-tenant-id': 'other',
      'x-principal': 'owner',
      'x-user': 'owner',
      'x-roles': 'admin',
      'x-forwarded-user': 'owner',
      'x-permissions': '*',
      cookie: 'session=owner',
      'x-api-key': 'gk_x',
      'x-original-url': '/healthz',
      'x-http-method-override': 'GET',
      'x-forwarded-for': '127.0.0.1',
    }
    const [status, result] = await seen('/v1/calls', text, calling({}, forged))
    assert.deepEqual([status, result.status], [200, 'ok'])
    const [, page] = await seen('/v1/calls', text, { headers: forged })
    assert.deepEqual(
      page.items.map((call: { principal: string }) => call.principal),
      ['key:plain'],
    )
    for (const member of ['identity', 'tenant', 'principal', 'roles', 'permissions', 'session']) {
      const [refused, { error }] = await seen('/v1/calls', text, calling({ [member]: 'owner' }))
      assert.deepEqual([refused, error.code], [400, 'PAYLOAD_INVALID'], member)
    }
    assert.equal((await ask('/v1/keys?permissions=*', text)).status, 403)
    assert.equal((await ask('/v1/keys', text, { headers: forged })).status, 403)
    assert.equal(service.submitted.length, 1)
    assert.deepEqual(await seen('/v1/calls', {}, calling({}, forged)), unknown)
  })

  await t.test('108: every route except the public ones rejects a missing or wrong credential', async (own) => {
    const { seen, ownerKey, make } = await rigFor(own)
    const open = new Set(['/healthz', '/readyz', '/metrics'])
    const shut = allRoutes().filter(({ path }: Route) => !open.has(path))
    assert.ok(shut.length > 15)
    for (const { path, method } of shut) {
      const at = path.replaceAll(/:[a-z]+/g, 'x')
      const init =
        method === 'POST' ? { method, body: '{}', headers: { 'content-type': 'application/json' } } : { method }
      assert.deepEqual(await seen(at, {}, init), unknown, `${method} ${path}`)
      assert.deepEqual(await seen(at, 'gk_wrong', init), unknown, `${method} ${path}`)
    }
    const { text } = await make({})
    const wrong = [
      '',
      'x',
      'null',
      'undefined',
      `${ownerKey}x`,
      text.slice(0, -1),
      `${text}A`,
      `gk_${'0'.repeat(12)}_${'x'.repeat(43)}`,
      'a.b.c',
      'eyJhbGciOiJub25lIn0.e30.',
    ]
    for (const one of wrong) assert.deepEqual(await seen('/v1/tools', one), unknown, one)
    for (const authorization of [
      ownerKey,
      `Basic ${ownerKey}`,
      `Bearer ${ownerKey}, Bearer ${text}`,
      `Token ${text}`,
    ]) {
      assert.deepEqual(await seen('/v1/tools', { authorization }), unknown, authorization)
    }
    assert.equal((await seen('/v1/tools', ownerKey))[0], 200)
    assert.equal((await seen('/v1/tools', text))[0], 200)
  })

  await t.test(
    '108: no caller can choose the secret of a key, or create a key with more than its own permissions',
    async (own) => {
      const { seen, make } = await rigFor(own)
      const { text: clerk } = await make({ name: 'clerk', permissions: ['gantry:keys'] })
      const json = (body: object): RequestInit => ({
        method: 'POST',
        body: JSON.stringify(body),
        headers: { 'content-type': 'application/json' },
      })
      for (const member of ['id', 'text', 'digest', 'createdBy']) {
        const [status] = await seen('/v1/keys', clerk, json({ name: 'mine', [member]: 'gk_chosen' }))
        assert.equal(status, 400, member)
      }
      for (const grant of [
        { principal: 'owner' },
        { permissions: ['*'] },
        { permissions: ['gantry:approve'] },
        { roles: ['admin'] },
        { tenant: 'other' },
      ]) {
        const [status, { error }] = await seen('/v1/keys', clerk, json({ name: 'mine', ...grant }))
        assert.deepEqual([status, error.code], [403, 'DENIED'], JSON.stringify(grant))
      }
      const [status, made] = await seen('/v1/keys', clerk, json({ name: 'mine', permissions: ['gantry:keys'] }))
      assert.deepEqual([status, made.key.createdBy, made.key.principal], [200, 'key:clerk', 'key:mine'])
      assert.equal((await seen('/v1/keys', made.text))[0], 200)
    },
  )

  await t.test(
    'a key of another tenant cannot read the calls of this one, nor list, rotate or revoke its keys',
    async (own) => {
      const { seen, make, ownerKey } = await rigFor(own)
      const { text: theirs } = await make({ name: 'theirs', tenant: 'other', permissions: ['*'] })
      const { text: narrow } = await make({ name: 'narrow', tenant: 'third', permissions: ['gantry:keys'] })
      const { key } = await make({ name: 'ours' })
      const [, { callId }] = await seen('/v1/calls', ownerKey, calling())
      assert.equal((await seen(`/v1/calls/${callId}`, ownerKey))[0], 200)
      assert.equal((await seen(`/v1/calls/${callId}`, theirs))[0], 404)
      for (const what of ['revoke', 'rotate']) {
        const there = await seen(`/v1/keys/${key.id}/${what}`, narrow, { method: 'POST' })
        const nowhere = await seen(`/v1/keys/${'0'.repeat(12)}/${what}`, narrow, { method: 'POST' })
        assert.equal(there[0], 404)
        assert.deepEqual(there, nowhere, 'a key of another tenant is like one that never was')
      }
      const [, { items }] = await seen('/v1/keys', narrow)
      assert.deepEqual(
        items.map((one: { name: string }) => one.name),
        ['narrow'],
      )
      assert.equal((await seen('/v1/keys?tenant=acme', narrow))[0], 403)
    },
  )

  await t.test('operator routes need the operator permission that the route names', async (own) => {
    const { seen, make, ownerKey } = await rigFor(own)
    const { text: plain } = await make({ name: 'none', permissions: ['files:*'] })
    const guarded = allRoutes().filter(({ permission, access }) => permission !== undefined && access === 'key')
    assert.ok(
      guarded.some(({ path }) => path === '/v1/workers') && guarded.some(({ path }) => path.endsWith('/redrive')),
    )
    for (const { path, method, permission } of guarded) {
      const at = path.replaceAll(/:[a-z]+/g, 'x')
      const init =
        method === 'POST' ? { method, body: '{}', headers: { 'content-type': 'application/json' } } : { method }
      const [status, { error }] = await seen(at, plain, init)
      assert.deepEqual([status, error.code, error.details.permission], [403, 'DENIED', permission], `${method} ${path}`)
    }
    const { text: holder } = await make({ name: 'holder', permissions: ['gantry:operate'] })
    assert.equal((await seen('/v1/workers', holder))[0], 200)
    assert.equal((await seen('/v1/keys', holder))[0], 403)
    const { text: all } = await make({ name: 'all', permissions: ['gantry:*'] })
    for (const key of [all, ownerKey]) assert.equal((await seen('/v1/keys', key))[0], 200)
  })

  await t.test('109: a signed request is valid once, unchanged and for five minutes', async (own) => {
    const { server, seen, make, ask } = await rigFor(own)
    const { privateKey, publicKey } = somePair()
    const { key } = await make({ name: 'signer', publicKey, permissions: ['*'] })
    const host = new URL(server.url).host
    const body = JSON.stringify({ tool: 'demo:add', args: { a: 5, b: 3 } })
    const sign = (given: object = {}) => ({
      ...signedHeaders({ keyId: key.id, privateKey, host, method: 'POST', path: '/v1/calls', body, ...given }),
      'content-type': 'application/json',
    })
    const send = (headers: { [name: string]: string }, path = '/v1/calls', text = body, method = 'POST') =>
      raw(server.url, path, method, headers, text)
    const good = sign()
    const first = await send(good)
    assert.deepEqual([first[0], first[1].status], [200, 'ok'])
    assert.deepEqual(await send(good), unknown, 'a replay')
    const changed: { [what: string]: Promise<readonly [number, unknown]> } = {
      body: send(sign(), '/v1/calls', body.replace('5', '6')),
      'body, longer': send(sign(), '/v1/calls', `${body} `),
      'no body': send(sign(), '/v1/calls', ''),
      path: send(sign(), '/v1/chains'),
      query: send(sign(), '/v1/calls?x=1'),
      method: send(sign({ body: '' }), '/v1/calls', '', 'GET'),
      host: send({ ...sign(), host: `localhost:${server.port}` }),
      old: send(sign({ created: Math.floor(Date.now() / 1_000) - 400 })),
      future: send(sign({ created: Math.floor(Date.now() / 1_000) + 400 })),
      'another key': send(sign({ privateKey: somePair().privateKey })),
      'a body under a GET': send(sign({ method: 'GET', path: '/v1/tools' }), '/v1/tools', body, 'GET'),
    }
    const keyed = sign({ headers: { 'idempotency-key': 'signed-once' } })
    changed['an idempotency key that was added'] = send({ ...sign(), 'idempotency-key': 'of a proxy' })
    changed['another idempotency key'] = send({ ...keyed, 'idempotency-key': 'of a proxy' })
    changed['a session that was added'] = send({ ...sign(), 'mcp-session-id': 'x' })
    for (const [what, answer] of Object.entries(changed)) assert.deepEqual(await answer, unknown, what)
    assert.equal((await send(keyed))[0], 200, 'the key that was signed')
    assert.deepEqual(await seen('/v1/calls', good, { method: 'POST', body }), unknown)
    const other = sign()
    const both = { ...other, authorization: `Bearer ${(await make({})).text}` }
    assert.deepEqual(await send(both), unknown, 'a key beside the signature')
    assert.equal((await send(other))[0], 200, 'which was not used up by that')
    assert.equal((await ask('/v1/calls', `gs_${key.id}_${'x'.repeat(43)}`)).status, 401)
  })

  await t.test('109: the client signs every request, and signs a retry with a new nonce', async (own) => {
    const { server, make } = await rigFor(own)
    const { privateKey, publicKey } = somePair()
    const { key } = await make({ name: 'client', publicKey, permissions: ['*'] })
    const text = `gs_${key.id}_${privateKey.export({ format: 'jwk' }).d}`
    const sent: Headers[] = []
    const flaky: typeof fetch = async (url, init) => {
      sent.push(new Headers(init?.headers))
      const answer = await fetch(url, init)
      if (sent.length > 1) return answer
      await answer.body?.cancel()
      throw new TypeError('the connection broke after the request was done')
    }
    const client = createClient({ url: server.url, key: text, fetch: flaky, retryDelayMs: 1 })
    const result = await client.call('demo:add', { a: 5, b: 3 })
    assert.deepEqual(result.output, { result: 8 })
    assert.equal((await client.list({ limit: 5, tool: 'demo:add' })).items[0]?.principal, 'key:client')
    const nonces = sent.map((headers) => /nonce="([^"]+)"/.exec(headers.get('signature-input') ?? '')?.[1])
    assert.equal(new Set(nonces).size, sent.length)
    assert.ok(sent.every((headers) => headers.get('authorization') === null))
    await assert.rejects(client.artifact(`art_${'0'.repeat(32)}`, { start: 1 }), { code: 'NOT_FOUND' })
    assert.match(sent.at(-1)?.get('signature-input') ?? '', / "range"\)/, 'a header that matters is signed')
    assert.ok(!JSON.stringify(sent.map((headers) => [...headers])).includes(text.slice(-43)))
    assert.throws(() => createClient({ url: server.url, key: 'gs_short' }), { code: 'CONFIG_INVALID' })
  })

  await t.test(
    '110: a token is valid only while its issuer is configured, and with the permissions the issuer may grant',
    async (own) => {
      const issuer = await startIssuer(own)
      const { seen, settings } = await rigFor(own, { jwt: [issuer.issuer] })
      const good = await issuer.token()
      const [status, result] = await seen('/v1/calls', good, calling())
      assert.deepEqual([status, result.status], [200, 'ok'])
      const [, { items }] = await seen('/v1/calls', good)
      assert.equal(items[0].principal, 'login:alice')
      assert.equal((await seen('/v1/keys', good))[0], 403, 'the token says gantry:keys, which its issuer may not grant')
      const [head = '', body = '', signature = ''] = good.split('.')
      const none = Buffer.from('{"alg":"none"}').toString('base64url')
      for (const forged of [
        `${none}.${body}.`,
        `${none}.${body}.${signature}`,
        `${head}.${body}.`,
        `${head}.${body}.AAAA`,
      ]) {
        assert.deepEqual(await seen('/v1/calls', forged), unknown, forged.slice(0, 20))
      }
      const hostile = {
        expired: await issuer.token({ exp: 1 }),
        'no end': await issuer.token({ exp: undefined as never }),
        'another audience': await issuer.token({ aud: 'other' }),
        'another issuer': await issuer.token({ iss: 'https://evil.example.com' }),
        jku: await issuer.token({}, { jku: `${issuer.url}/evil`, kid: 'k9' }),
        x5u: await issuer.token({}, { x5u: `${issuer.url}/evil`, kid: 'k9' }),
      }
      for (const [what, token] of Object.entries(hostile))
        assert.deepEqual(await seen('/v1/calls', token), unknown, what)
      assert.deepEqual(issuer.asked, ['/jwks'])
      settings.current = { ...settings.current, jwt: [] }
      assert.deepEqual(await seen('/v1/calls', good), unknown, 'an issuer that is gone from the configuration')
    },
  )

  await t.test('110: while the issuer’s keys are unavailable a token gets 503, neither access nor 401', async (own) => {
    const issuer = await startIssuer(own)
    issuer.server.status = 503
    const { seen, ownerKey } = await rigFor(own, { jwt: [issuer.issuer] })
    const [status, { error }] = await seen('/v1/calls', await issuer.token())
    assert.deepEqual([status, error.code], [503, 'STORE_UNAVAILABLE'])
    assert.equal((await seen('/v1/calls', ownerKey))[0], 200, 'others are not concerned')
  })

  await t.test('a key with a list of tools sees only those, and the others are answered as not found', async (own) => {
    const { seen, make } = await rigFor(own)
    const { text: bound } = await make({ name: 'bound', permissions: ['*'], tools: ['demo:echo'] })
    const { text: free } = await make({ name: 'free' })
    const ids = async (key: string): Promise<string[]> =>
      (await seen('/v1/tools', key))[1].items.map(({ id }: { id: string }) => id)
    assert.ok((await ids(free)).includes('demo:add'))
    assert.deepEqual(await ids(bound), ['demo:echo'])
    assert.equal((await seen('/v1/calls', free, calling()))[0], 200)
    const [status, { error }] = await seen('/v1/calls', bound, calling())
    const [, { error: nowhere }] = await seen('/v1/calls', bound, calling({ tool: 'demo:odd' }))
    assert.deepEqual([status, error.code], [404, 'TOOL_NOT_FOUND'])
    assert.deepEqual(nowhere.code, error.code)
    assert.ok(!JSON.stringify(nowhere).includes('demo:add'), 'no near name tells of it')
    assert.equal((await seen('/v1/tools/demo:add', bound))[0], 404)
  })

  await t.test(
    'revoking a credential ends the event streams it opened, and streams of others continue',
    async (own) => {
      const issuer = await startIssuer(own)
      const { make, seen, ask, ownerKey, settings, server } = await rigFor(own, { jwt: [issuer.issuer] })
      const counting = { tool: 'demo:countdown', args: { from: 1_000, delayMs: 20 }, waitMs: 0 }
      const [, { callId }] = await seen('/v1/calls', ownerKey, calling(counting))
      const path = `/v1/calls/${callId}/events`
      const { privateKey, publicKey } = somePair()
      const [sent, signing] = [await make({ name: 'sent' }), await make({ name: 'signing', publicKey })]
      const signed = signedHeaders({ keyId: signing.key.id, privateKey, path, host: new URL(server.url).host })
      const open = async (credentials: Parameters<typeof ask>[1]) => {
        const answer = await ask(path, credentials)
        assert.equal(answer.status, 200)
        const end = answer.text()
        // The server may end a stream before the test reads it.
        end.catch(() => undefined)
        return { end }
      }
      const revoke = ({ id }: { readonly id: string }) => seen(`/v1/keys/${id}/revoke`, ownerKey, { method: 'POST' })
      const goesOn = (await ask(path, ownerKey)).body?.getReader()
      const [ofKey, ofSignature, ofToken] = [
        await open(sent.text),
        await open(signed),
        await open(await issuer.token()),
      ]
      await revoke(sent.key)
      await assert.rejects(ofKey.end)
      await revoke(signing.key)
      await assert.rejects(ofSignature.end)
      settings.current = { ...settings.current, jwt: [] }
      await assert.rejects(ofToken.end)
      assert.equal((await seen(path, sent.text))[0], 401)
      assert.equal((await goesOn?.read())?.done, false)
      await goesOn?.cancel()
    },
  )

  await t.test('a disabled method authenticates no caller, and the key file always does', async (own) => {
    const { seen, make, ownerKey, settings } = await rigFor(own)
    const { text } = await make({})
    assert.equal((await seen('/v1/tools', text))[0], 200)
    settings.current = { keys: false, signed: false, jwt: [] }
    assert.deepEqual(await seen('/v1/tools', text), unknown)
    assert.equal((await seen('/v1/tools', ownerKey))[0], 200)
  })
})

test('111: credentials are compared in constant time only', () => {
  const folder = join(import.meta.dirname, '../src/http/authentication')
  const comparing = globSync('*.ts', { cwd: folder })
    .filter((file) => !/\.(?:test|fixture)\.ts$/.test(file))
    .map((file) => ({ file, text: readFileSync(join(folder, file), 'utf8') }))
  for (const { file, text } of comparing) {
    assert.doesNotMatch(
      text,
      /\.equals\(|Buffer\.compare|(?:digest|secret|given|kept)\w* ===? \w*(?:digest|kept|expected)/i,
      file,
    )
  }
  const safe = comparing.filter(({ text }) => text.includes('timingSafeEqual(')).map(({ file }) => file)
  assert.deepEqual(safe.sort(), ['authenticator.ts', 'signed-request.ts', 'stored-key.ts'])
})
