import assert from 'node:assert/strict'
import { test } from 'node:test'
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib'
import { here, serve, testCertificate } from '../../../core/src/egress/egress.fixture.ts'
import { bodyOf, lookup, sceneFor, secret, secureServer } from './broker.fixture.ts'
import { received } from './proxy.fixture.ts'

const wire = Buffer.from(secret).toString('latin1')

test('the broker replaces a header placeholder with the secret for its own host and for no other', async (t) => {
  const [mine, other] = [await secureServer(t), await secureServer(t)]
  const plain = await serve(t)
  const allow = here(mine, other, plain)
  const { ask, placeholder, secure, send, ca } = await sceneFor(t, [mine.origin], { allow })
  const answer = await ask(`secure.test:${mine.port}`, 'GET /a HTTP/1.1', `Authorization: Bearer ${placeholder}`)
  assert.equal(mine.seen[0]?.headers.authorization, `Bearer ${wire}`)
  assert.match(answer, /^HTTP\/1\.1 200 /)
  assert.ok(answer.includes(`Bearer ${placeholder}`) && !answer.includes('sk-live'), answer)

  // The other one is an end-to-end tunnel with the server's own certificate.
  const host = `secure.test:${other.port}`
  await assert.rejects(secure(host, { ca: [ca] }))
  const tunnel = await secure(host, { ca: [testCertificate] })
  tunnel.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${placeholder}\r\nConnection: close\r\n\r\n`)
  await received(tunnel)
  assert.equal(other.seen[0]?.headers.authorization, `Bearer ${placeholder}`)

  await send(`GET ${plain.origin}/ HTTP/1.1\r\nX-Key: ${placeholder}\r\n\r\n`)
  assert.equal(plain.seen[0]?.headers['x-key'], placeholder)
})

test('an http origin receives the secret when a credential names it', async (t) => {
  const server = await serve(t, (request, response) => response.end(request.headers['x-key']))
  const { send, placeholder } = await sceneFor(t, [server.origin])
  const answer = await send(`GET ${server.origin}/ HTTP/1.1\r\nX-Key: ${placeholder}\r\n\r\n`)
  assert.equal(server.seen[0]?.headers['x-key'], wire)
  assert.ok(answer.endsWith(`\r\n\r\n${placeholder}`), answer)
})

test('the broker fills basic credentials, several and repeated headers, but not other cases or unknown placeholders', async (t) => {
  const mine = await secureServer(t)
  const { ask, placeholder } = await sceneFor(t, [mine.origin])
  const basic = Buffer.from(`x-access-token:${placeholder}`).toString('base64')
  const strange = `gantry-placeholder-${'0'.repeat(32)}`
  const answer = await ask(
    `secure.test:${mine.port}`,
    'GET / HTTP/1.1',
    `AUTHORIZATION: basic ${basic}`,
    `X-One: ${placeholder},${placeholder}`,
    `X-Two: a${placeholder}`,
    `X-Two: ${placeholder}b`,
    `Cookie: k=${placeholder}`,
    `X-Upper: ${placeholder.toUpperCase()}`,
    `X-Other: ${strange}`,
    `X-Coded: ${Buffer.from(placeholder).toString('base64')}`,
  )
  const headers = mine.seen[0]?.headers ?? {}
  assert.equal(headers.authorization, `basic ${Buffer.from(`x-access-token:${secret}`).toString('base64')}`)
  assert.equal(headers['x-one'], `${wire},${wire}`)
  assert.equal(headers['x-two'], `a${wire}, ${wire}b`)
  assert.equal(headers.cookie, `k=${wire}`)
  assert.equal(headers['x-upper'], placeholder.toUpperCase())
  assert.equal(headers['x-other'], strange)
  assert.equal(headers['x-coded'], Buffer.from(placeholder).toString('base64'))
  assert.ok(
    !answer.includes('sk-live') && !answer.includes(Buffer.from(secret).toString('base64').slice(4, -8)),
    answer,
  )
})

test('the broker fills query and body only when configured, encoded for their content type', async (t) => {
  const mine = await secureServer(t, (_, response) => void response.end('ok'))
  const host = `secure.test:${mine.port}`
  const only = await sceneFor(t, [mine.origin])
  const post = (body: string, type: string): string[] => [
    `POST /?k=KEY HTTP/1.1`,
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ]
  const sent = async ({ secure, placeholder }: typeof only, body: string, type = 'text/plain'): Promise<void> => {
    const inner = await secure(host)
    const filled = post(body.replaceAll('KEY', placeholder), type).map((line) => line.replaceAll('KEY', placeholder))
    inner.write([filled[0], `Host: ${host}`, 'Connection: close', ...filled.slice(1)].join('\r\n'))
    await received(inner)
  }
  await sent(only, 'k=KEY')
  assert.deepEqual([mine.seen[0]?.url, mine.seen[0]?.body], [`/?k=${only.placeholder}`, `k=${only.placeholder}`])

  const all = await sceneFor(t, [mine.origin], { in: ['query', 'body'] })
  await sent(all, 'a=KEY&b=KEY', 'application/x-www-form-urlencoded')
  await sent(all, '{"a":"KEY"}', 'application/json; charset=utf-8')
  await sent(all, '<KEY>')
  const [, form, json, text] = mine.seen
  assert.equal(new URL(form?.url ?? '', mine.origin).searchParams.get('k'), secret)
  assert.deepEqual([...new URLSearchParams(form?.body).values()], [secret, secret])
  assert.equal(Buffer.from(JSON.parse(json?.body ?? '').a, 'latin1').toString(), secret)
  assert.equal(text?.body, `<${wire}>`)
  const inner = await all.secure(host)
  inner.write(`GET / HTTP/1.1\r\nHost: ${host}\r\nX-Key: ${all.placeholder}\r\nConnection: close\r\n\r\n`)
  await received(inner)
  assert.equal(mine.seen.at(-1)?.headers['x-key'], all.placeholder)
})

test('the broker fills a long streamed body at every chunk boundary', async (t) => {
  const mine = await secureServer(t, (_, response) => void response.end('ok'))
  const host = `secure.test:${mine.port}`
  const { secure, placeholder } = await sceneFor(t, [mine.origin], { in: ['body'] })
  const inner = await secure(host)
  inner.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n`)
  const text = `${'x'.repeat(50)}${placeholder}${'y'.repeat(50)}${placeholder}`
  for (let at = 0; at < text.length; at += 7) {
    const piece = text.slice(at, at + 7)
    inner.write(`${piece.length.toString(16)}\r\n${piece}\r\n`)
    await new Promise((resolve) => setImmediate(resolve))
  }
  inner.write('0\r\n\r\n')
  await received(inner)
  assert.equal(mine.seen[0]?.body, text.replaceAll(placeholder, wire))
})

const codings = {
  identity: (text: string) => Buffer.from(text),
  gzip: (text: string) => gzipSync(text),
  deflate: (text: string) => deflateSync(text),
  br: (text: string) => brotliCompressSync(text),
}

test('the broker removes a secret from a response in every encoding and at every chunk boundary', async (t) => {
  const body = `before ${secret} between ${Buffer.from(`u:${secret}`).toString('base64')} and ${encodeURIComponent(secret)} after`
  const mine = await secureServer(t, ({ url }, response) => {
    const coding = url.slice(1) as keyof typeof codings
    const bytes = codings[coding](body)
    response.writeHead(200, {
      ...(coding === 'identity' ? {} : { 'content-encoding': coding }),
      'x-echo': Buffer.from(secret).toString('latin1'),
      'set-cookie': [`a=${encodeURIComponent(secret)}`, 'b=2'],
    })
    const send = (at: number): void => {
      if (at >= bytes.length) return void response.end()
      response.write(bytes.subarray(at, at + 5), () => setImmediate(send, at + 5))
    }
    send(0)
  })
  const { ask, placeholder } = await sceneFor(t, [mine.origin])
  for (const coding of Object.keys(codings)) {
    const answer = await ask(`secure.test:${mine.port}`, `GET /${coding} HTTP/1.1`)
    assert.match(
      bodyOf(answer),
      new RegExp(`^before ${placeholder} between \\S*${placeholder} and ${placeholder} after$`),
    )
    assert.ok(answer.includes(`x-echo: ${placeholder}`) && answer.includes('set-cookie: b=2'), answer)
    const forms = ['sk-live', encodeURIComponent(secret), Buffer.from(secret).toString('base64').slice(4, 24)]
    for (const form of forms) assert.ok(!answer.includes(form), `${coding}: ${answer}`)
    assert.equal(mine.seen.at(-1)?.headers['accept-encoding'], 'identity')
  }
})

test('the broker does not forward a response whose encoding it cannot search', async (t) => {
  const bytes = gzipSync(secret)
  const mine = await secureServer(t, ({ url }, _, { socket }) => {
    const coding = url === '/way' ? 'Transfer-Encoding: gzip, chunked' : 'Content-Encoding: compress'
    const body = [`${bytes.length.toString(16)}\r\n`, bytes, '\r\n0\r\n\r\n'].map((part) => Buffer.from(part))
    socket.write(`HTTP/1.1 200 OK\r\n${coding}\r\n${url === '/way' ? '' : 'Transfer-Encoding: chunked\r\n'}\r\n`)
    socket.end(Buffer.concat(body))
  })
  const { ask } = await sceneFor(t, [mine.origin])
  for (const path of ['/way', '/body']) {
    const answer = await ask(`secure.test:${mine.port}`, `GET ${path} HTTP/1.1`)
    assert.ok(!answer.includes(bytes.toString('latin1')), answer)
    assert.ok(!/^HTTP\/1\.1 200 .*\r\n\r\n./s.test(answer), answer)
  }
})

test('the broker drops range headers, because it could not recognize a part of a secret', async (t) => {
  const mine = await secureServer(t)
  const { ask } = await sceneFor(t, [mine.origin])
  await ask(`secure.test:${mine.port}`, 'GET / HTTP/1.1', 'Range: bytes=0-3', 'If-Range: "x"')
  const [asked] = mine.seen
  assert.deepEqual([asked?.headers.range, asked?.headers['if-range']], [undefined, undefined])
})

test('a redirect contains the placeholder, and its target receives only the placeholder', async (t) => {
  const other = await secureServer(t)
  const mine = await secureServer(t, (_, response) => {
    response.writeHead(302, { location: `${other.origin}/?token=${encodeURIComponent(secret)}` }).end()
  })
  const { ask, placeholder, secure } = await sceneFor(t, [mine.origin], { allow: here(mine, other) })
  const answer = await ask(`secure.test:${mine.port}`, 'GET / HTTP/1.1', `Authorization: Bearer ${placeholder}`)
  assert.ok(answer.includes(`location: ${other.origin}/?token=${placeholder}\r\n`), answer)
  const host = `secure.test:${other.port}`
  const next = await secure(host, { ca: [testCertificate] })
  next.write(
    `GET /?token=${placeholder} HTTP/1.1\r\nHost: ${host}\r\nAuthorization: Bearer ${placeholder}\r\nConnection: close\r\n\r\n`,
  )
  await received(next)
  assert.ok(!JSON.stringify(other.seen).includes('sk-live') && other.seen.length === 1)
})

test('the broker fills each request of a keep-alive connection and sets the length of each response', async (t) => {
  const mine = await secureServer(t, ({ url, headers }, response) => void response.end(`${url} ${headers['x-key']}`))
  const host = `secure.test:${mine.port}`
  const { secure, placeholder } = await sceneFor(t, [mine.origin])
  const inner = await secure(host)
  const request = (path: string, more = ''): string =>
    `GET ${path} HTTP/1.1\r\nHost: ${host}\r\nX-Key: ${placeholder}\r\n${more}\r\n`
  const all = received(inner)
  inner.write(`${request('/1')}${request('/2')}`)
  await new Promise((resolve) => inner.once('data', resolve))
  inner.write(request('/3', 'Connection: close\r\n'))
  const text = await all
  assert.deepEqual(
    mine.seen.map(({ url, headers }) => [url, headers['x-key']]),
    [1, 2, 3].map((n) => [`/${n}`, wire]),
  )
  const bodies = [1, 2, 3].map((n) => `/${n} ${placeholder}`)
  for (const body of bodies)
    assert.ok(text.includes(`content-length: ${body.length}\r\n`) && text.includes(`\r\n\r\n${body}`), text)
})

test('the broker answers Expect: 100-continue, and a HEAD response keeps its content length', async (t) => {
  const mine = await secureServer(t, ({ body }, response) => {
    response.writeHead(200, { 'content-length': 4_000_000 })
    response.end(body.slice(0, 0))
  })
  const host = `secure.test:${mine.port}`
  const { secure, ask } = await sceneFor(t, [mine.origin])
  const head = await ask(host, 'HEAD / HTTP/1.1')
  assert.match(head, /content-length: 4000000\r\n/)
  const inner = await secure(host)
  inner.write(
    `HEAD / HTTP/1.1\r\nHost: ${host}\r\nExpect: 100-continue\r\nContent-Length: 3\r\nConnection: close\r\n\r\n`,
  )
  const [first] = await new Promise<[Buffer]>((resolve) => inner.once('data', (piece: Buffer) => resolve([piece])))
  assert.match(String(first), /^HTTP\/1\.1 100 /)
  inner.write('abc')
  await received(inner)
  assert.equal(mine.seen.at(-1)?.body, 'abc')
})

test('the broker streams long bodies unchanged in both directions', async (t) => {
  const bytes = Buffer.alloc(6_000_000, 'The quick brown fox. ')
  const mine = await secureServer(t, ({ body }, response) => {
    response.setHeader('x-length', body.length)
    response.end(bytes)
  })
  const host = `secure.test:${mine.port}`
  const { secure } = await sceneFor(t, [mine.origin])
  const inner = await secure(host)
  inner.write(`POST / HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${bytes.length}\r\nConnection: close\r\n\r\n`)
  inner.write(bytes)
  const answer = await received(inner)
  assert.match(answer, /x-length: 6000000\r\n/)
  assert.ok(bodyOf(answer) === bytes.toString('latin1'))
})

test('the broker applies the egress rules: methods, private addresses and rebinding names', async (t) => {
  const mine = await secureServer(t)
  const host = `secure.test:${mine.port}`
  const methods = await sceneFor(t, [mine.origin], {
    allow: [{ origin: mine.origin, private: true, methods: ['GET'] }],
  })
  const ask = async (scene: typeof methods, method: string): Promise<string> =>
    (await scene.ask(host, `${method} / HTTP/1.1`, `X-Key: ${scene.placeholder}`)).slice(0, 12)
  assert.equal(await ask(methods, 'GET'), 'HTTP/1.1 200')
  assert.equal(await ask(methods, 'DELETE'), 'HTTP/1.1 403')
  assert.equal(await ask(methods, 'TRACE'), 'HTTP/1.1 403')
  const before = mine.connections()
  const unlisted = await sceneFor(t, [mine.origin], { allow: [mine.origin] })
  assert.equal(await ask(unlisted, 'GET'), 'HTTP/1.1 403')
  let leads = 0
  const rebinding = await sceneFor(t, [mine.origin], {
    allow: [mine.origin],
    lookup: async (name, signal) => {
      leads += 1
      return leads === 1
        ? [
            { address: '93.184.215.14', family: 4 },
            { address: '127.0.0.1', family: 4 },
          ]
        : lookup(name, signal)
    },
  })
  assert.equal(await ask(rebinding, 'GET'), 'HTTP/1.1 403')
  assert.equal(await ask(rebinding, 'GET'), 'HTTP/1.1 403')
  assert.equal(mine.connections(), before)
  await assert.rejects(
    sceneFor(t, [mine.origin], { allow: here(mine), only: ['https://b.example'] }).then((scene) => ask(scene, 'GET')),
    /403/,
  )
})

test('a server whose certificate is not trusted receives nothing', async (t) => {
  const mine = await secureServer(t)
  const { ask, placeholder } = await sceneFor(t, [mine.origin], { ca: [] })
  const answer = await ask(`secure.test:${mine.port}`, 'GET / HTTP/1.1', `X-Key: ${placeholder}`)
  assert.match(answer, /^HTTP\/1\.1 50\d .*BACKEND_UNAVAILABLE/s)
  assert.equal(mine.seen.length, 0)
})
