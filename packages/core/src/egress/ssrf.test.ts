import assert from 'node:assert/strict'
import { createSocket } from 'node:dgram'
import { Resolver } from 'node:dns/promises'
import { createServer, get as plainGet } from 'node:http'
import { type TestContext, test } from 'node:test'
import { fails, guard, here, serve } from './egress.fixture.ts'
import type { HostLookup } from './options.ts'
import { type Bytes, countDials, hiddenForms, originOf, plainForms } from './ssrf.fixture.ts'

test('no notation of a loopback address reaches a listener, unless the rule allows private addresses', async (t) => {
  const server = await serve(t)
  const dials = countDials(t)
  const loopback: Bytes = [127, 0, 0, 1]
  const short = ['127.1', '0x7f.1', '017700000001', '0'].map((host) => `http://${host}:${server.port}/`)
  const urls = [...plainForms(loopback, server.port), ...short]
  for (const url of [
    ...urls,
    ...hiddenForms(loopback, server.port),
    `http://[::]:${server.port}/`,
    `http://[::1]:${server.port}/`,
  ]) {
    const { get } = guard(t, { allow: [originOf(url)] })
    await assert.rejects(get(url), fails('EGRESS_DENIED', { effect: 'none' }), url)
  }
  assert.equal(dials(), 0)
  assert.equal(server.connections(), 0)

  for (const url of urls) {
    const { get } = guard(t, { allow: [{ origin: originOf(url), private: true }] })
    assert.equal(await (await get(url)).text(), 'ok', url)
  }
  assert.equal(server.seen.length, urls.length)
  assert.equal(dials(), urls.length)
})

test('no notation of a metadata address is reachable, whatever the rule allows', async (t) => {
  const dials = countDials(t)
  const services: Bytes[] = [
    [169, 254, 169, 254],
    [169, 254, 170, 2],
    [100, 100, 100, 200],
    [192, 0, 0, 192],
  ]
  const others = ['http://[fd00:ec2::254]/', 'http://[fe80::a9fe:a9fe]/', 'http://[fd20:ce::254]/']
  const urls = [...services.flatMap((service) => [...plainForms(service, 80), ...hiddenForms(service, 80)]), ...others]
  assert.equal(urls.length, 115)
  for (const url of urls) {
    const { get, events } = guard(t, { allow: [{ origin: originOf(url), private: true }] })
    await assert.rejects(get(url), fails('EGRESS_DENIED'), url)
    assert.deepEqual(
      events.map(({ outcome }) => outcome),
      ['refused'],
    )
  }
  assert.equal(dials(), 0)
})

test('a malformed address is refused as an invalid URL, without a lookup', async (t) => {
  const asked: string[] = []
  const lookup: HostLookup = async (host) => {
    asked.push(host)
    return [{ address: '127.0.0.1', family: 4 }]
  }
  const { get } = guard(t, { allow: ['http://example.com'], lookup })
  for (const host of ['425.510.425.510', '4294967296', '127.0.0.1\0.example.com', '[fe80::1%25eth0]', '[::1', 'a b']) {
    await assert.rejects(get(`http://${host}/`), fails('INPUT_INVALID'), host)
  }
  assert.deepEqual(asked, [])
})

test('a name that resolves to loopback or a metadata service is refused after the lookup and before the dial', async (t) => {
  const server = await serve(t)
  const dials = countDials(t)
  const names = new Map([
    ['localhost', '127.0.0.1'],
    ['metadata.google.internal', '169.254.169.254'],
    ['metadata', '169.254.169.254'],
    ['kubernetes.default.svc', '10.96.0.1'],
    ['six.test', '::ffff:127.0.0.1'],
    ['odd.test', '2130706433'],
    ['zone.test', 'fe80::1%lo'],
  ])
  const lookup: HostLookup = async (host) => [{ address: names.get(host) ?? '', family: 4 }]
  const hosts = ['localhost', 'localhost.', 'LOCALHOST', 'ｌｏｃａｌｈｏｓｔ', ...names.keys()]
  for (const host of hosts) {
    const name = new URL(`http://${host}`).hostname.replace(/\.$/, '')
    const { get } = guard(t, { allow: [`http://${name}:${server.port}`], lookup })
    await assert.rejects(get(`http://${host}:${server.port}/`), fails('EGRESS_DENIED'), host)
  }
  assert.equal(dials(), 0)
  assert.equal(server.connections(), 0)

  const { get } = guard(t, { allow: [{ origin: `http://localhost:${server.port}`, private: true }], lookup })
  assert.equal(await (await get(`http://ｌｏｃａｌｈｏｓｔ.:${server.port}/`)).text(), 'ok')
})

test('a name with one private address among public ones is refused', async (t) => {
  const server = await serve(t)
  const dials = countDials(t)
  const lookup: HostLookup = async () => [
    { address: '93.184.215.14', family: 4 },
    { address: '2606:4700::1111', family: 6 },
    { address: '127.0.0.1', family: 4 },
  ]
  const { get } = guard(t, { allow: [`http://mixed.test:${server.port}`], lookup })
  await assert.rejects(get(`http://mixed.test:${server.port}/`), fails('EGRESS_DENIED'))
  assert.equal(dials(), 0)
  assert.equal(server.connections(), 0)
})

/** A DNS server on loopback that returns the given answers in turn, with a TTL of 0. */
async function serveDns(
  t: TestContext,
  answers: readonly (readonly string[])[],
): Promise<{ lookup: HostLookup; asked(): number }> {
  const server = createSocket('udp4')
  let asked = 0
  server.on('message', (query, { port, address }) => {
    const records = answers[Math.min(asked++, answers.length - 1)] ?? []
    const question = query.subarray(12, query.indexOf(0, 12) + 5)
    const header = Buffer.from([...query.subarray(0, 2), 0x81, 0x80, 0, 1, 0, records.length, 0, 0, 0, 0])
    const found = records.map((ip) =>
      Buffer.from([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ...ip.split('.').map(Number)]),
    )
    server.send(Buffer.concat([header, question, ...found]), port, address)
  })
  await new Promise<void>((resolve) => server.bind(0, '127.0.0.1', resolve))
  t.after(() => new Promise<void>((resolve) => server.close(resolve)))
  const resolver = new Resolver({ timeout: 2_000, tries: 1 })
  resolver.setServers([`127.0.0.1:${server.address().port}`])
  const lookup: HostLookup = async (host) => (await resolver.resolve4(host)).map((address) => ({ address, family: 4 }))
  return { lookup, asked: () => asked }
}

test('DNS rebinding: the guard dials the address that it checked', async (t) => {
  const victim = await serve(t, (_, response) => response.end('victim'))
  const lured = createServer((_, response) => response.end('checked'))
  await new Promise<void>((resolve) => lured.listen(victim.port, '127.0.0.2', resolve))
  t.after(() => void lured.close().closeAllConnections())
  const url = `http://rebind.test:${victim.port}/`

  // Control: a client that checks one answer and resolves again to connect reaches the victim.
  const naive = await serveDns(t, [['127.0.0.2'], ['127.0.0.1']])
  assert.deepEqual(await naive.lookup('rebind.test', t.signal), [{ address: '127.0.0.2', family: 4 }])
  const [second] = await naive.lookup('rebind.test', t.signal)
  const led = await new Promise<string>((resolve) => {
    const request = plainGet(url, {
      agent: false,
      lookup: (_, __, done) => done(null, [{ address: second?.address ?? '', family: 4 }]),
    })
    request.on('response', (response) => response.on('data', (piece) => resolve(String(piece))))
  })
  assert.equal(led, 'victim')

  const dns = await serveDns(t, [['127.0.0.2'], ['127.0.0.1']])
  const { get, events } = guard(t, {
    allow: [{ origin: `http://rebind.test:${victim.port}`, private: true }],
    lookup: dns.lookup,
  })
  assert.equal(await (await get(url)).text(), 'checked')
  assert.equal(dns.asked(), 1)
  assert.deepEqual(
    events.map(({ address }) => address),
    ['127.0.0.2'],
  )
  assert.equal(victim.seen.length, 1)
})

test('a name is resolved and checked again for the next connection', async (t) => {
  const server = await serve(t)
  const dials = countDials(t)
  const dns = await serveDns(t, [['93.184.215.14'], ['127.0.0.1'], ['93.184.215.14', '127.0.0.1']])
  const stop = new AbortController()
  const lookup: HostLookup = async (host, signal) => {
    const found = await dns.lookup(host, signal)
    if (dns.asked() === 1) stop.abort(new Error('stopped before the dial'))
    return found
  }
  const { egress, get } = guard(t, { allow: [`http://rebind.test:${server.port}`], lookup })
  const target = { owner: 'test', host: 'rebind.test', port: server.port, signal: stop.signal }
  await assert.rejects(egress.connect(target), /stopped before the dial/)
  await assert.rejects(get(`http://rebind.test:${server.port}/`), fails('EGRESS_DENIED'))
  await assert.rejects(get(`http://rebind.test:${server.port}/`), fails('EGRESS_DENIED'))
  assert.equal(dns.asked(), 3)
  assert.equal(dials(), 0)
  assert.equal(server.connections(), 0)
})

test('user info in a URL is refused, on whichever side of the @ the allowed host stands', async (t) => {
  const server = await serve(t)
  const { get, egress } = guard(t, { allow: [...here(server), 'http://example.com'] })
  const place = server.origin.slice('http://'.length)
  for (const url of [
    `http://user@${place}/`,
    `http://user:word@${place}/`,
    `http://example.com@${place}/`,
    `http://:word@${place}/`,
    `http://${place}@example.com/`,
  ]) {
    await assert.rejects(get(url), fails('EGRESS_DENIED'), url)
    await assert.rejects(egress.fetch({ owner: 'test' })(url), fails('EGRESS_DENIED'), url)
  }
  for (const host of [
    `user@${place}`,
    '127.0.0.1/',
    '127.0.0.1#',
    '127.0.0.1\\',
    '',
    ' 127.0.0.1',
    `127.0.0.1:${server.port}`,
  ]) {
    await assert.rejects(
      egress.connect({ owner: 'test', host, port: server.port, signal: t.signal }),
      fails('INPUT_INVALID'),
      host,
    )
  }
  assert.equal(server.connections(), 0)
  assert.equal(await (await get(`${server.origin}/a@b?c@d#e@f`)).text(), 'ok')
})

test('schemes other than http and https are refused', async (t) => {
  const { get, events } = guard(t, { allow: ['http://example.com'] })
  for (const url of [
    'file:///etc/passwd',
    'gopher://example.com/',
    'data:text/plain,x',
    'ftp://example.com/',
    'ws://example.com/',
    'blob:http://example.com/1',
    'javascript:1',
  ]) {
    await assert.rejects(get(url), fails('EGRESS_DENIED'), url)
  }
  assert.equal(events.length, 7)
  assert.ok(!JSON.stringify(events).includes('passwd'))
})
