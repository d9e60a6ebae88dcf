import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type TestContext, test } from 'node:test'
import type { TLSSocket } from 'node:tls'
import { here, listen, serveRaw } from '../../../core/src/egress/egress.fixture.ts'
import { bodyOf, type Scene, sceneFor, secret, secureServer } from './broker.fixture.ts'
import { received } from './proxy.fixture.ts'
import { frame } from './websocket-frames.fixture.ts'

const wire = Buffer.from(secret).toString('latin1')

interface Site extends Scene {
  readonly mine: Awaited<ReturnType<typeof secureServer>>
  readonly host: string
}

async function siteFor(t: TestContext): Promise<Site> {
  const mine = await secureServer(t)
  return { ...(await sceneFor(t, [mine.origin])), mine, host: `secure.test:${mine.port}` }
}

/** Sends bytes in a tunnel, and gives all that comes back. */
async function sends({ secure, host }: Site, bytes: string): Promise<string> {
  const inner = await secure(host)
  inner.write(Buffer.from(bytes, 'latin1'))
  inner.end()
  return received(inner)
}

/** A request that is as it should be is answered. */
async function control(site: Site): Promise<void> {
  const answer = await site.ask(site.host, 'GET /control HTTP/1.1', `X-Key: ${site.placeholder}`)
  assert.match(answer, /^HTTP\/1\.1 200 /)
  assert.equal(site.mine.seen.pop()?.headers['x-key'], wire)
}

test('51: a request inside a tunnel is refused unless it names the tunnel’s host exactly once', async (t) => {
  const site = await siteFor(t)
  const { host, mine, placeholder } = site
  await control(site)
  const heads = [
    ['GET / HTTP/1.1', 'Host: other.test'],
    ['GET / HTTP/1.1', `Host: ${host}`, 'Host: other.test'],
    ['GET / HTTP/1.1', `Host: ${host}`, `host: ${host}`],
    ['GET / HTTP/1.1', 'Host: secure.test'],
    ['GET / HTTP/1.1', `Host: user@${host}`],
    ['GET https://other.test/ HTTP/1.1', `Host: ${host}`],
    [`GET https://${host}/ HTTP/1.1`, 'Host: other.test'],
    [`GET //other.test/ HTTP/1.1`, 'Host: other.test'],
    [`GET /\\other.test HTTP/1.1`, `Host: ${host}`],
    [`GET /a#b HTTP/1.1`, `Host: ${host}`],
    ['OPTIONS * HTTP/1.1', `Host: ${host}`],
    [`CONNECT other.test:443 HTTP/1.1`, `Host: other.test:443`],
    ['PRI * HTTP/2.0', '', 'SM'],
  ]
  for (const head of heads) {
    const answer = await sends(site, [...head, `X-Key: ${placeholder}`, '', ''].join('\r\n'))
    assert.match(answer, /^(?:HTTP\/1\.1 4\d\d .*|)$/s, head.join(' | '))
    assert.ok(!answer.includes('sk-live'))
  }
  assert.deepEqual(mine.seen, [])
  await control(site)
})

test('51: the broker completes TLS only for the CONNECT host and HTTP/1.1', async (t) => {
  const site = await siteFor(t)
  const { secure, host, mine, open } = site
  await control(site)
  await assert.rejects(secure(host, { servername: 'other.test' }))
  const nameless = await secure(host, { servername: '', checkServerIdentity: () => undefined })
  nameless.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  assert.equal(await received(nameless), '')
  await assert.rejects(secure(host, { ALPNProtocols: ['h2'] }))
  await assert.rejects(secure(host, { maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' }))
  const both = await secure(host, { ALPNProtocols: ['h2', 'http/1.1'] })
  assert.equal(both.alpnProtocol, 'http/1.1')
  const plain = open()
  plain.write(`CONNECT ${host} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await once(plain, 'data')
  plain.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  await received(plain)
  assert.equal(mine.seen.length, 0)
})

test('the broker refuses ambiguous requests and non-HTTP bytes inside a tunnel', async (t) => {
  const site = await siteFor(t)
  const { host, mine, placeholder } = site
  await control(site)
  const inner = `GET /smuggled HTTP/1.1\r\nHost: ${host}\r\nX-Key: ${placeholder}\r\n\r\n`
  const head = (...lines: readonly string[]): string =>
    ['POST / HTTP/1.1', `Host: ${host}`, ...lines, '', ''].join('\r\n')
  const wrong = [
    `${head('Content-Length: 5', 'Transfer-Encoding: chunked')}0\r\n\r\n${inner}`,
    `${head('Content-Length: 5', 'Content-Length: 6')}12345${inner}`,
    `${head('Content-Length: 5, 5')}12345${inner}`,
    `${head('Transfer-Encoding: chunked, identity')}0\r\n\r\n${inner}`,
    `${head('Transfer-Encoding: xchunked')}0\r\n\r\n${inner}`,
    `${head('Transfer-Encoding : chunked')}0\r\n\r\n${inner}`,
    `${head('Content-Length: +5')}12345${inner}`,
    head('X-Bad: a\rb'),
    head('X-Bad: a\0b'),
    head(' folded: x'),
    head('X-Key: a\n\tfolded'),
    `POST / HTTP/1.1\nHost: ${host}\n\n`,
    `POST / HTTP/1.1\r\nHost: ${host}\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`,
  ]
  for (const bytes of wrong) {
    await sends(site, bytes)
    const paths = mine.seen.splice(0).map(({ url }) => url)
    assert.ok(!paths.includes('/smuggled'), JSON.stringify(bytes.slice(0, 120)))
  }
  // A body that looks like a request stays a body.
  await sends(site, head(`Content-Length: ${inner.length}`, 'Connection: close') + inner)
  assert.deepEqual(
    mine.seen.splice(0).map(({ url, body }) => [url, body]),
    [['/', inner]],
  )
  await control(site)
})

test('the broker does not replace a placeholder in a header name, path or host', async (t) => {
  const site = await siteFor(t)
  const { host, mine, placeholder, ask, send } = site
  await ask(host, `GET /${placeholder}?k=${placeholder} HTTP/1.1`, `${placeholder}: x`)
  const [asked] = mine.seen
  assert.equal(asked?.url, `/${placeholder}?k=${placeholder}`)
  assert.equal(asked?.headers[placeholder], 'x')
  assert.match(await send(`CONNECT ${placeholder}:443 HTTP/1.1\r\n\r\n`), /^HTTP\/1\.1 403 /)
})

test('error responses and events of the proxy never contain the secret', async (t) => {
  const closed = await serveRaw(t, (socket) => socket.destroy())
  const broken = await serveRaw(t, (socket) => void socket.end(`HTTP/1.1 200 OK\r\nX: ${wire}\0\r\n\r\n`))
  const origins = [closed, broken].flatMap(({ port }) => [`https://secure.test:${port}`, `http://secure.test:${port}`])
  const { ask, send, placeholder, events } = await sceneFor(t, origins)
  for (const { port } of [closed, broken]) {
    const host = `secure.test:${port}`
    const inside = await ask(host, 'GET / HTTP/1.1', `X-Key: ${placeholder}`)
    const open = await send(`GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\nX-Key: ${placeholder}\r\n\r\n`)
    for (const answer of [inside, open]) {
      assert.match(answer, /^HTTP\/1\.1 50\d .*\r\n\r\nBACKEND_/s)
      assert.ok(!answer.includes('sk-live'), answer)
    }
  }
  assert.ok(events.length >= 4 && !JSON.stringify(events).includes('sk-live'))

  // A secret that is longer than all headers may be.
  const mine = await secureServer(t)
  const long = await sceneFor(t, [mine.origin], { value: 'sk-live'.repeat(10_000) })
  const answer = await long.ask(`secure.test:${mine.port}`, 'GET / HTTP/1.1', `X-Key: ${long.placeholder}`)
  assert.match(bodyOf(answer), /^INPUT_INVALID: /)
  assert.ok(!answer.includes('sk-live') && mine.seen.length === 0)
})

test('69: the broker ignores proxy settings in the host’s environment', async (t) => {
  const proxy = await listen(t, createServer())
  const names = ['HTTPS_PROXY', 'https_proxy', 'HTTP_PROXY', 'http_proxy', 'ALL_PROXY', 'NODE_USE_ENV_PROXY']
  const before = names.map((name) => [name, process.env[name]] as const)
  for (const name of names) process.env[name] = name === 'NODE_USE_ENV_PROXY' ? '1' : proxy.origin
  t.after(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  })
  await control(await siteFor(t))
  assert.equal(proxy.connections(), 0)
})

/** A server that turns connections into others, and says what `speak` makes it say. */
async function upgrading(t: TestContext, speak: (socket: TLSSocket, asked: string) => void) {
  const mine = await secureServer(t)
  mine.server.on('upgrade', (request, socket) => {
    const { url = '', headers } = request
    socket.on('error', () => {})
    mine.seen.push({ method: 'UPGRADE', url, headers, body: '' })
    speak(socket as TLSSocket, url)
  })
  const agreed = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  return { mine, agreed, host: `secure.test:${mine.port}` }
}

const wish = (host: string, ...more: readonly string[]): string =>
  [`GET /chat HTTP/1.1`, `Host: ${host}`, 'Connection: Upgrade', 'Upgrade: websocket', ...more, '', ''].join('\r\n')

test('51: the broker sends a WebSocket upgrade with the secret and without compression, then forwards each message at its end', async (t) => {
  const { mine, agreed, host } = await upgrading(t, (socket) => {
    socket.write(Buffer.concat([Buffer.from(`${agreed}X-Echo: ${wire}\r\n\r\n`, 'latin1'), frame('sk-live hello ')]))
    socket.on('data', (piece) => socket.end(frame(piece)))
  })
  const { secure, placeholder } = await sceneFor(t, [mine.origin])
  const inner = await secure(host)
  const all = received(inner)
  inner.write(wish(host, `Authorization: Bearer ${placeholder}`, 'Sec-WebSocket-Extensions: permessage-deflate'))
  // The end of a message is enough for it to be passed on; the server sends more only after it was read.
  let decrypted = ''
  while (!decrypted.includes('hello')) decrypted += String((await once(inner, 'data'))[0])
  inner.write('frames')
  const answer = await all
  assert.match(answer, /^HTTP\/1\.1 101 .*\r\n\r\n..sk-live hello ..frames$/s)
  assert.ok(answer.includes(`X-Echo: ${placeholder}\r\n`) && !answer.includes(wire), answer)
  const [asked] = mine.seen
  assert.equal(asked?.headers.authorization, `Bearer ${wire}`)
  assert.equal(asked?.headers['sec-websocket-extensions'], undefined)
})

test('51: the broker closes a WebSocket before it returns the secret, also when it arrives byte by byte', async (t) => {
  const { mine, agreed, host } = await upgrading(t, (socket) => {
    socket.write(Buffer.concat([Buffer.from(`${agreed}\r\n`), frame('first')]))
    const bytes = frame(`sk-l, sk-live, ${secret} after`)
    const say = (at: number): void => {
      if (at < bytes.length && !socket.destroyed)
        socket.write(bytes.subarray(at, at + 1), () => setImmediate(say, at + 1))
    }
    setImmediate(say, 0)
  })
  const { secure, placeholder } = await sceneFor(t, [mine.origin])
  const inner = await secure(host)
  inner.write(wish(host, `X-Key: ${placeholder}`))
  const answer = await received(inner)
  assert.match(answer, /\r\n\r\n..first..$/s)
})

test('51: the broker upgrades a connection only to WebSocket, and only when the server and the egress rules agree', async (t) => {
  const { mine, host } = await upgrading(t, (socket) =>
    socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n'),
  )
  const { secure, placeholder } = await sceneFor(t, [mine.origin])
  const tried = async (bytes: string): Promise<string> => {
    const inner = await secure(host)
    inner.write(bytes)
    return received(inner)
  }
  assert.match(await tried(wish(host, `X-Key: ${placeholder}`)), /^HTTP\/1\.1 502 .*answered with 401/s)
  assert.equal(mine.seen.splice(0).length, 1)
  assert.match(await tried(wish(host).replace('Upgrade: websocket', 'Upgrade: h2c')), /^HTTP\/1\.1 403 /)
  assert.match(await tried(wish(host).replace(`Host: ${host}`, 'Host: other.test')), /^HTTP\/1\.1 400 /)
  assert.match(await tried(wish(host, 'Content-Length: 3')), /^HTTP\/1\.1 400 /)
  const some = await sceneFor(t, [mine.origin], { allow: here(mine).map((rule) => ({ ...rule, methods: ['GET'] })) })
  const inner = await some.secure(host)
  inner.write(wish(host))
  assert.match(await received(inner), /^HTTP\/1\.1 403 /)
  assert.deepEqual(mine.seen, [])
})

test('52: the broker disconnects a client that pipelines without reading, and a slow one after the idle limit', async (t) => {
  const mine = await secureServer(t, () => undefined)
  const host = `secure.test:${mine.port}`
  const { secure } = await sceneFor(t, [mine.origin], { limits: { idleMs: 300 } })
  const greedy = await secure(host)
  greedy.write(`GET / HTTP/1.1\r\nHost: ${host}\r\n\r\n`.repeat(50))
  await received(greedy)
  assert.ok(mine.seen.length <= 1)
  const slow = await secure(host)
  slow.write('GET / HT')
  await received(slow)
})

test('a slow response is forwarded while each gap stays within the idle limit', async (t) => {
  const mine = await secureServer(t, (_, response) => {
    const say = (left: number): void => {
      if (left === 0) return void response.end('end')
      response.write('piece ')
      setTimeout(say, 60, left - 1)
    }
    say(12)
  })
  const { ask } = await sceneFor(t, [mine.origin], { limits: { idleMs: 400 } })
  assert.equal(bodyOf(await ask(`secure.test:${mine.port}`, 'GET / HTTP/1.1')), `${'piece '.repeat(12)}end`)
})
