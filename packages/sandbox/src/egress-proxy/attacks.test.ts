import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, get as plainGet } from 'node:http'
import { type TestContext, test } from 'node:test'
import type { HostLookup } from '@gantry/core/internal/egress/options'
import fc from 'fast-check'
import { here, serve, type TestServer } from '../../../core/src/egress/egress.fixture.ts'
import { proxyFor, serveTls, type TestProxy } from './proxy.fixture.ts'

const lookup: HostLookup = async () => [{ address: '127.0.0.1', family: 4 }]
const refusedLine = /^HTTP\/1\.1 (?:400|403) .*\r\n\r\n(?:INPUT_INVALID|EGRESS_DENIED): [^\n]*\n$/s
const head = (...lines: readonly string[]): string => [...lines, '', ''].join('\r\n')

interface Scene extends TestProxy {
  /** Both may be reached by the executor's rules, but the sandbox may only reach the first. */
  readonly allowed: TestServer
  readonly victim: TestServer
  /** Host and port of each. */
  readonly a: string
  readonly v: string
}

async function setUp(t: TestContext): Promise<Scene> {
  const [allowed, victim] = [await serve(t), await serve(t, (_, response) => response.end('victim'))]
  const encrypted = { origin: `https://127.0.0.1:${victim.port}` }
  const proxy = await proxyFor(t, { allow: here(allowed, victim, encrypted), only: [allowed.origin], lookup })
  return { ...proxy, allowed, victim, a: allowed.origin.slice(7), v: victim.origin.slice(7) }
}

/** What a request that is as it should be gets, and that there would be something to reach. */
async function control(t: TestContext, { send, egress, allowed, victim, a }: Scene): Promise<void> {
  assert.match(await send(head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`)), /^HTTP\/1.1 200 OK\r\n.*\r\n\r\nok$/s)
  const direct = await egress.request({ owner: 'test', url: victim.origin, signal: t.signal })
  assert.equal(await direct.text(), 'victim')
  assert.equal(allowed.seen.length, 1)
  assert.equal(victim.seen.length, 1)
}

/** Sends each, and expects each to be refused without any connection. */
async function allRefused({ send, allowed, victim }: Scene, requests: readonly string[]): Promise<void> {
  const before = [allowed.seen.length, victim.connections()]
  for (const request of requests) {
    const text = await send(Buffer.from(request, 'latin1'))
    assert.match(text, refusedLine, JSON.stringify(request.slice(0, 200)))
  }
  assert.deepEqual([allowed.seen.length, victim.connections()], before)
}

test('51: a request for anything but an allowed origin is refused, in every spelling of the target', async (t) => {
  const scene = await setUp(t)
  const { a, v, victim } = scene
  await control(t, scene)
  const targets = [
    // Another host, another port, another scheme.
    ...[`http://${v}/`, `http://localhost:${victim.port}/`, `http://127.0.0.1:22/`, `https://${a}/`, `http://${a}1/`],
    ...['http://127.0.0.1/', 'http://[::1]/', `http://[::1]:${victim.port}/`, `http://[::ffff:7f00:1]:${victim.port}/`],
    ...['http://169.254.169.254/latest/meta-data/', 'http://metadata.google.internal/', 'http://[fd00:ec2::254]/'],
    // A user before the host, and what looks like one.
    ...[`http://${a}@${v}/`, `http://user:word@${a}/`, `http://@${a}/`, `http://${a}%40${v}/`, `http://${a}:@${v}/`],
    // What parsers do not agree on.
    ...[`http://${a}\\@${v}/`, `http://${a}\\.${v}/`, `http:\\\\${v}\\`, `http://${v}#@${a}/`, `http://${a}/#x`],
    ...[`http:/${v}/`, `http:${v}/`, `http:///${v}/`, `http://${v}\t/`, `http://${a},${v}/`, `http://${a};${v}/`],
    'http://',
    'http:///',
    `http://:${victim.port}/`,
    `http://${a}:${victim.port}/`,
    'http://a..b/',
    'http://.a/',
    'http://127.0.0.1:0/',
    'http://127.0.0.1:65536/',
    `http://127.0.0.1:0${victim.port}/`,
    'http://127.0.0.1:/',
    ...[`http://127.0.0.1\0.example.com:${victim.port}/`, `http://127.0.0.1%00:${victim.port}/`, `http://${a}/\xe9`],
    // Zones, and hosts that are none.
    ...[
      'http://[fe80::1%25eth0]/',
      'http://[fe80::1%eth0]/',
      'http://[::1/',
      'http://::1/',
      'http://a b/',
      'http://*/',
    ],
    ...['http://[v1.x]/', 'http://[127.0.0.1]/', `http://${'a'.repeat(300)}/`, `http://${'a.'.repeat(200)}/`],
    // Nothing that a proxy is asked for.
    '/',
    `//${v}/`,
    '*',
    v,
    `/http://${v}/`,
    `ftp://${v}/`,
    'file:///etc/passwd',
    `gopher://${v}/`,
    `ws://${v}/`,
  ]
  const host = (target: string): string => /^https?:\/\/([^/]*)/.exec(target)?.[1] ?? a
  await allRefused(scene, [
    ...targets.map((target) => head(`GET ${target} HTTP/1.1`, `Host: ${host(target)}`)),
    ...targets.map((target) => head(`GET ${target} HTTP/1.1`, `Host: ${a}`)),
    ...targets.map((target) => head(`GET ${target} HTTP/1.0`)),
  ])
})

test('51: a Host header that names another host than the request is refused, and so are two', async (t) => {
  const scene = await setUp(t)
  const { a, v } = scene
  await control(t, scene)
  await allRefused(scene, [
    ...[v, '127.0.0.1', `${a}1`, `user@${a}`, `${a}/`, `http://${a}`, '', ' '].map((host) =>
      head(`GET http://${a}/ HTTP/1.1`, `Host: ${host}`),
    ),
    head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`, `Host: ${v}`),
    head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`, `host: ${a}`),
    head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`, ...Array<string>(2_500).fill('a:'), `Host: ${v}`),
    head(`GET http://${v}/ HTTP/1.1`, `Host: ${a}`),
    head(`CONNECT ${a} HTTP/1.1`, `Host: ${v}`),
    head(`CONNECT ${a} HTTP/1.1`, `Host: ${a}`, `Host: ${v}`),
  ])
})

test('51: a tunnel to anything but an allowed origin is refused, in every spelling of the target', async (t) => {
  const secure = await serveTls(t)
  const scene = await setUp(t)
  const { a, v, victim } = scene
  await control(t, scene)
  const targets = [
    ...[v, `localhost:${victim.port}`, '127.0.0.1:22', '127.0.0.1:443', '[::1]:443', `[::ffff:7f00:1]:${victim.port}`],
    ...[`secure.test:${secure.port}`, '169.254.169.254:80', 'metadata.google.internal:80', '[fd00:ec2::254]:80'],
    ...[`user@${v}`, `${a}@${v}`, `http://${a}`, `https://${a}/`, `${a}/`, `${a}?`, `${a}#`, `${a}\\${v}`, '127.0.0.1'],
    ...[`127.0.0.1\0:${victim.port}`, `127.0.0.1%00:${victim.port}`, '[fe80::1%25lo]:80', '[fe80::1%lo]:80', '::1:80'],
    '127.0.0.1:0',
    '127.0.0.1:65536',
    '127.0.0.1:-1',
    `127.0.0.1:0${victim.port}`,
    '127.0.0.1:',
    ':80',
    '*',
    '/',
    ...[`127.0.0.1:${victim.port} `, `127.0.0.1\t:${victim.port}`, '[]:80', '[::]:80', `${'a'.repeat(300)}:80`],
  ]
  const wider = await proxyFor(t, { allow: here({ origin: `https://${v}` }) })
  const open = wider.open()
  open.write(head(`CONNECT ${v} HTTP/1.1`, `Host: ${v}`))
  assert.match(String((await once(open, 'data'))[0]), /^HTTP\/1.1 200 /)
  open.destroy()
  await allRefused(scene, [
    ...targets.map((target) => head(`CONNECT ${target} HTTP/1.1`, `Host: ${target}`)),
    ...targets.map((target) => head(`CONNECT ${target} HTTP/1.0`)),
  ])
  assert.deepEqual(secure.seen, [])
})

/** Ways to write 127.0.0.1 that URL parsing turns into it. */
const loopbacks = [
  '2130706433',
  '0x7f000001',
  '0X7F000001',
  '017700000001',
  '0x7f.0x0.0x0.0x1',
  '0177.0.0.01',
  '127.0.1',
  '127.1',
  '0x7f.1',
  '127.0x0.0.1',
  '0177.0.0.1',
  '%31%32%37.0.0.1',
  '127.0.0.%31',
]
const mapped = ['[::ffff:127.0.0.1]', '[0:0:0:0:0:ffff:7f00:1]', '[::FFFF:7f00:0001]', '[::ffff:0:127.0.0.1]']
const metadata = [
  '169.254.169.254',
  '2852039166',
  '0xa9fea9fe',
  '0251.0376.0251.0376',
  '169.254.43518',
  '0xa9.0xfe.0xa9.0xfe',
  ...['[::ffff:a9fe:a9fe]', '[::ffff:169.254.169.254]', '[64:ff9b::a9fe:a9fe]', '[2002:a9fe:a9fe::]', '169.254.170.2'],
  ...['100.100.100.200', '192.0.0.192', '[fd00:ec2::254]', '[fe80::a9fe:a9fe]', '[::169.254.169.254]'],
]

test('65: the proxy refuses loopback and metadata addresses in every spelling', async (t) => {
  const server = await serve(t)
  const { port } = server
  // Without the proxy each of them leads to the listener.
  for (const host of loopbacks) assert.equal(await (await fetch(`http://${host}:${port}/`)).text(), 'ok', host)
  const direct = server.connections()

  const origins = [...loopbacks, ...mapped, '127.0.0.1', '127.0.0.1.'].map((host) => `http://${host}:${port}`)
  const services = metadata.map((host) => `http://${host}`)
  const secure = [...origins, ...services].map((origin) => origin.replace('http:', 'https:'))
  const proxies = [
    await proxyFor(t, { allow: [...origins, ...services, ...secure] }),
    await proxyFor(t, { allow: here(...services.map((origin) => ({ origin }))), only: services }),
  ]
  for (const origin of [...origins, ...services]) {
    const host = origin.slice(7)
    const tunnel = host.includes(':', host.indexOf(']')) ? host : `${host}:443`
    for (const { send } of proxies) {
      assert.match(await send(head(`GET ${origin}/ HTTP/1.1`, `Host: ${host}`)), refusedLine, origin)
      assert.match(await send(head(`CONNECT ${tunnel} HTTP/1.1`, `Host: ${tunnel}`)), refusedLine, origin)
    }
  }
  const outcomes = proxies.flatMap(({ events }) => events.map(({ outcome }) => outcome))
  assert.ok(outcomes.length > 20)
  assert.deepEqual([...new Set(outcomes)], ['refused'])
  assert.equal(server.connections(), direct)

  const { send } = await proxyFor(t, { allow: here({ origin: `http://127.0.0.1:${port}` }) })
  for (const host of ['127.0.0.1', '127.0.0.1.']) {
    assert.match(await send(head(`GET http://${host}:${port}/ HTTP/1.1`)), /^HTTP\/1.1 200 /)
  }
  for (const host of [...loopbacks, ...mapped]) {
    assert.match(await send(head(`GET http://${host}:${port}/ HTTP/1.1`)), /^HTTP\/1.1 40[03] /, host)
  }
})

test('66: the proxy connects to the address that it checked, and refuses a private address without revealing it', async (t) => {
  const victim = await serve(t, (_, response) => response.end('victim'))
  const lured = createServer((_, response) => response.end('checked'))
  await new Promise<void>((resolve) => lured.listen(victim.port, '127.0.0.2', resolve))
  t.after(() => void lured.close().closeAllConnections())
  const url = `http://rebind.test:${victim.port}/`
  const answers = ['127.0.0.2', '127.0.0.1']
  let asked = 0
  const changing: HostLookup = async () => [{ address: answers[asked++] ?? '127.0.0.1', family: 4 }]

  // Without the guard, a connection that resolves the name again is led to the victim.
  await changing('rebind.test', t.signal)
  const second = await changing('rebind.test', t.signal)
  const led = await new Promise<string>((resolve) => {
    const request = plainGet(url, { agent: false, lookup: (_, __, done) => done(null, [...second]) })
    request.on('response', (response) => response.on('data', (piece) => resolve(String(piece))))
  })
  assert.equal(led, 'victim')

  asked = 0
  const origin = `http://rebind.test:${victim.port}`
  const { send } = await proxyFor(t, { allow: here({ origin }), lookup: changing })
  assert.match(await send(head(`GET ${url} HTTP/1.1`)), /checked/)
  assert.equal(asked, 1)

  const inner = await proxyFor(t, { allow: [origin, `https://rebind.test:${victim.port}`], lookup })
  for (const line of [`GET ${url} HTTP/1.1`, `CONNECT rebind.test:${victim.port} HTTP/1.1`]) {
    const text = await inner.send(head(line))
    assert.match(text, /^HTTP\/1.1 403 .*\r\n\r\nEGRESS_DENIED: rebind.test leads to a private/s)
    assert.doesNotMatch(text, /127\.0\.0/)
  }
  assert.equal(victim.seen.length, 1)
})

test('51: the proxy refuses a client that follows a redirect to a forbidden origin', async (t) => {
  const victim = await serve(t)
  const luring = await serve(t, (_, response) => response.writeHead(302, { location: victim.origin }).end())
  const { send } = await proxyFor(t, { allow: here(luring, victim), only: [luring.origin] })
  const first = await send(head(`GET ${luring.origin}/ HTTP/1.1`))
  const next = /location: (\S+)/i.exec(first)?.[1] ?? ''
  assert.equal(next, victim.origin)
  assert.match(await send(head(`GET ${next}/ HTTP/1.1`)), /^HTTP\/1.1 403 /)
  assert.equal(victim.connections(), 0)
})

test('51: the proxy refuses WebSockets, HTTP/2 and TRACE', async (t) => {
  const scene = await setUp(t)
  const { a } = scene
  await control(t, scene)
  const upgrade = ['Connection: Upgrade', 'Upgrade: websocket', 'Sec-WebSocket-Key: x', 'Sec-WebSocket-Version: 13']
  await allRefused(scene, [
    head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`, ...upgrade),
    head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`, 'Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c'),
    head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`, 'Upgrade: websocket'),
    'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0',
    head(`TRACE http://${a}/ HTTP/1.1`, `Host: ${a}`),
  ])
})

test('51: requests that two parsers could split differently are refused', async (t) => {
  const scene = await setUp(t)
  const { a, v } = scene
  await control(t, scene)
  const post = [`POST http://${a}/ HTTP/1.1`, `Host: ${a}`]
  const hidden = head(`GET http://${v}/ HTTP/1.1`, `Host: ${v}`)
  await allRefused(scene, [
    `${head(...post, 'Content-Length: 6', 'Transfer-Encoding: chunked')}0\r\n\r\nG`,
    `${head(...post, 'Transfer-Encoding: chunked', 'Content-Length: 6')}0\r\n\r\n${hidden}`,
    `${head(...post, 'Transfer-Encoding: xchunked')}0\r\n\r\n`,
    `${head(...post, 'Transfer-Encoding: chunked, identity')}0\r\n\r\n`,
    `${head(...post, 'Transfer-Encoding: gzip, chunked')}0\r\n\r\n`,
    `${head(...post, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked')}0\r\n\r\n`,
    `${head(...post, 'Content-Length: 1', 'Content-Length: 2')}ab`,
    `${head(...post, 'Content-Length: +1')}a`,
    `${head(...post, 'Content-Length: 0x1')}a`,
    `${head(...post, 'Content-Length : 1')}a`,
    `${head(...post, 'Transfer-Encoding: chunked')}-1\r\n\r\n`,
    head(...post, 'X: 1\r\n folded: 2'),
    head(...post, 'X: a\0b'),
    head(...post, 'X: a\rX-Y: b'),
    head(...post, 'X y: 1'),
    head(`POST http://${a}/\rX: HTTP/1.1`, `Host: ${a}`),
    head(`POST http://${a}/ HTTP/1.1 HTTP/1.1`, `Host: ${a}`),
    head(`POST http://${a}/ HTTP/3.7`, `Host: ${a}`),
  ])
})

test('51: the proxy refuses a connection that sends a second request', async (t) => {
  const scene = await setUp(t)
  const { a, v, send, victim } = scene
  await control(t, scene)
  const before = victim.connections()
  const first = head(`GET http://${a}/ HTTP/1.1`, `Host: ${a}`)
  const second = head(`GET http://${v}/ HTTP/1.1`, `Host: ${v}`)
  const texts = [
    await send(`${first}${second}`),
    await send(`${first}${head(`CONNECT ${v} HTTP/1.1`)}`),
    await send(`${first}${'x'.repeat(100)}`),
    await send(`${head(`POST http://${a}/ HTTP/1.1`, 'Content-Length: 2')}hi${second}`),
    await send(`${first}${first.repeat(5_000)}`),
  ]
  for (const text of texts) assert.match(text, /^HTTP\/1.1 400 .*\r\n\r\nINPUT_INVALID: [^\n]*\n$/s)
  assert.equal(victim.connections(), before)
})

test('51: for arbitrary input the connection ends and no forbidden server is reached', async (t) => {
  const scene = await setUp(t)
  const { a, v, open, send, victim } = scene
  await control(t, scene)
  const before = victim.connections()
  const piece = fc.oneof(
    fc.constantFrom('GET ', 'CONNECT ', 'http://', a, v, '@', ':', '/', '\\', '\0', '\r\n', '\r', '\n', ' ', '%', '#'),
    fc.constantFrom(' HTTP/1.1', 'Host: ', 'Content-Length: 3', 'Transfer-Encoding: chunked', '\r\n\r\n', '[::1]'),
    fc.string({ unit: 'binary-ascii', maxLength: 5 }),
  )
  const start = fc.constantFrom(`GET http://${a}`, `CONNECT ${a}`, `GET http://${a}/ HTTP/1.1\r\nHost: ${a}`, '')
  await fc.assert(
    fc.asyncProperty(start, fc.array(piece, { maxLength: 12 }), async (first, rest) => {
      const socket = open()
      const closed = new Promise((resolve) => socket.once('close', resolve))
      socket.resume().end(Buffer.from([first, ...rest, '\r\n\r\n'].join(''), 'latin1'))
      await closed
    }),
    { numRuns: 300 },
  )
  assert.equal(victim.connections(), before)
  assert.match(await send(head(`GET http://${a}/ HTTP/1.1`)), /^HTTP\/1.1 200 /)
})
