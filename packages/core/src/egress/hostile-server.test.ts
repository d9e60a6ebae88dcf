import assert from 'node:assert/strict'
import { test } from 'node:test'
import { brotliCompressSync, deflateRawSync, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib'
import { answering, fails, guard, here, serve, serveRaw } from './egress.fixture.ts'

const encoders = {
  gzip: gzipSync,
  'x-gzip': gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
}

test('bodies are decoded in every encoding of Accept-Encoding', async (t) => {
  const text = 'hällo '.repeat(1_000)
  const server = await serve(t, (request, response) => {
    const name = request.url?.slice(1) ?? ''
    const encode = name === 'raw' ? deflateRawSync : encoders[name as keyof typeof encoders]
    response.writeHead(200, { 'content-encoding': name === 'raw' ? 'deflate' : name }).end(encode(text))
  })
  const { get, egress } = guard(t, { allow: here(server) })
  for (const name of [...Object.keys(encoders), 'raw']) {
    const response = await get(`${server.origin}/${name}`)
    assert.equal(response.headers.get('content-encoding'), null)
    assert.equal(await response.text(), text, name)
  }
  assert.equal(await (await egress.fetch({ owner: 'test' })(`${server.origin}/gzip`)).text(), text)
  assert.equal(server.seen[0]?.headers['accept-encoding'], 'gzip, deflate, br, zstd')
})

test('a decompression bomb fails with RESULT_TOO_LARGE at the size limit', async (t) => {
  const bombs = Object.entries(encoders).map(([name, encode]) => ({ name, bytes: encode(Buffer.alloc(20_000_000)) }))
  const server = await serve(t, (request, response) => {
    const bomb = bombs[Number(request.url?.slice(1))]
    response.writeHead(200, { 'content-encoding': bomb?.name }).end(bomb?.bytes)
  })
  const { get } = guard(t, { allow: here(server), maxResponseBytes: 100_000 })
  for (const [index, { name, bytes }] of bombs.entries()) {
    assert.ok(bytes.length < 60_000, name)
    let read = 0
    const response = await get(`${server.origin}/${index}`)
    const reading = async (): Promise<void> => {
      for await (const piece of response.body) read += piece.byteLength
    }
    await assert.rejects(reading(), fails('RESULT_TOO_LARGE', { effect: 'none' }), name)
    assert.ok(read <= 100_000, `${name} gave ${read}`)
  }
  const lax = guard(t, { allow: here(server), maxResponseBytes: 30_000_000 })
  assert.equal((await (await lax.get(`${server.origin}/0`)).bytes()).byteLength, 20_000_000)
})

test('an endless or oversized body fails with RESULT_TOO_LARGE, encoded or not, with or without Content-Length', async (t) => {
  const empty = gzipSync('')
  const server = await serve(t, (request, response) => {
    if (request.url === '/said') return void response.writeHead(200, { 'content-length': '1000000' }).write('x')
    const piece = request.url === '/members' ? Buffer.concat(Array(500).fill(empty)) : Buffer.alloc(10_000)
    if (request.url === '/members') response.writeHead(200, { 'content-encoding': 'gzip' })
    const send = (): void => void (response.write(piece) ? setImmediate(send) : response.once('drain', send))
    response.on('error', () => {})
    send()
  })
  const { get, egress } = guard(t, { allow: here(server), maxResponseBytes: 500_000 })
  await assert.rejects(async () => (await get(`${server.origin}/plain`)).text(), fails('RESULT_TOO_LARGE'))
  await assert.rejects(async () => (await get(`${server.origin}/members`)).text(), fails('RESULT_TOO_LARGE'))
  await assert.rejects(get(`${server.origin}/said`), fails('RESULT_TOO_LARGE'))
  await assert.rejects(
    async () => (await get(`${server.origin}/plain`, { maxBytes: 10 })).text(),
    fails('RESULT_TOO_LARGE'),
  )
  await assert.rejects(
    async () => (await egress.fetch({ owner: 'test', maxBytes: 10 })(`${server.origin}/plain`)).text(),
    fails('RESULT_TOO_LARGE'),
  )
  const post = { method: 'POST', body: 'x' }
  await assert.rejects(
    async () => (await get(`${server.origin}/plain`, post)).text(),
    fails('RESULT_TOO_LARGE', { effect: 'possible' }),
  )
})

test('stacked encodings, unknown encodings and corrupt bodies fail with BACKEND_FAILED', async (t) => {
  const cut = gzipSync('x'.repeat(10_000)).subarray(0, 30)
  const answers = [
    { encoding: 'gzip, gzip', body: gzipSync(gzipSync('x')) },
    { encoding: 'compress', body: 'x' },
    { encoding: 'constructor', body: 'x' },
    { encoding: 'gzip', body: 'not gzip' },
    { encoding: 'br', body: 'not brotli' },
    { encoding: 'zstd', body: 'not zstd' },
    { encoding: 'gzip', body: cut },
  ]
  const server = await serve(t, (request, response) => {
    const answer = answers[Number(request.url?.slice(1))]
    response.writeHead(200, { 'content-encoding': answer?.encoding }).end(answer?.body)
  })
  const { get } = guard(t, { allow: here(server) })
  for (const [index, { encoding }] of answers.entries()) {
    await assert.rejects(
      async () => (await get(`${server.origin}/${index}`)).text(),
      fails('BACKEND_FAILED', { effect: 'none' }),
      encoding,
    )
  }
})

test('an encoded response without a body reads as empty', async (t) => {
  const server = await serve(t, (_, response) => response.writeHead(200, { 'content-encoding': 'gzip' }).end())
  const { get } = guard(t, { allow: here(server) })
  assert.equal(await (await get(server.origin)).text(), '')
  assert.equal(await (await get(server.origin, { method: 'HEAD' })).text(), '')
})

test('a body shorter than its Content-Length or without its last chunk fails with BACKEND_FAILED', async (t) => {
  const server = await answering(t, 'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort')
  const chunked = await answering(t, 'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nshort\r\n')
  const { get } = guard(t, { allow: here(server, chunked) })
  for (const { origin } of [server, chunked]) {
    const words = `${origin} closed the connection before its response was complete.`
    await assert.rejects(
      async () => (await get(origin)).text(),
      fails('BACKEND_FAILED', { effect: 'none', message: words }),
    )
    await assert.rejects(
      async () => (await get(origin, { method: 'POST', body: '' })).text(),
      fails('BACKEND_FAILED', { effect: 'possible' }),
    )
  }
})

test('bytes beyond Content-Length are not read as the response to the next request', async (t) => {
  const smuggled = 'HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nevil'
  let connections = 0
  const server = await serveRaw(t, (socket) => {
    connections += 1
    const text =
      connections === 1
        ? `HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok${smuggled}`
        : 'HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nright'
    socket.once('data', () => socket.write(text))
  })
  const { get } = guard(t, { allow: here(server), maxConnectionsPerOrigin: 1 })
  assert.equal(await (await get(server.origin)).text(), 'ok')
  assert.equal(await (await get(server.origin)).text(), 'right')
})

test('oversized headers, ambiguous lengths and invalid HTTP fail with BACKEND_FAILED', async (t) => {
  const long = `HTTP/1.1 200 OK\r\nx-long: ${'x'.repeat(20_000)}\r\n\r\n`
  const many = `HTTP/1.1 200 OK\r\n${'x-many: 1\r\n'.repeat(5_000)}\r\n`
  const answers = [
    ...[
      long,
      many,
      'SSH-2.0-OpenSSH_9.0\r\n',
      '\0\0\0',
      '<html></html>',
      'HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n',
    ],
    ...[
      'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab',
      'HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\n',
    ],
    ...[
      'HTTP/1.1 200 OK\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
      'HTTP/1.1 200 OK\r\ncontent-length: 1e3\r\n\r\n',
    ],
    ...[
      'HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n',
      'HTTP/1.1 200 OK\r\nbad name: x\r\n\r\n',
    ],
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
    'HTTP/1.1 200 OK\nx\0: y\n\n',
    '',
  ]
  for (const answer of answers) {
    const server = await answering(t, answer)
    const { get } = guard(t, { allow: here(server) })
    await assert.rejects(
      async () => (await get(server.origin)).text(),
      fails('BACKEND_FAILED', { effect: 'none' }),
      answer.slice(0, 60),
    )
  }
})

test('oversized trailers fail with BACKEND_FAILED', async (t) => {
  const trailers = 'x-many: 1\r\n'.repeat(5_000)
  const server = await answering(
    t,
    `HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n${trailers}\r\n`,
  )
  const { get } = guard(t, { allow: here(server) })
  await assert.rejects(async () => (await get(server.origin)).text(), fails('BACKEND_FAILED'))
})

test('a server that sends nothing, or only informational responses, fails after headersMs', async (t) => {
  const unresponsive = await serveRaw(t, () => {})
  const early = await serveRaw(t, (socket) => {
    const timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n'), 20)
    socket.on('close', () => clearInterval(timer))
  })
  const { get } = guard(t, { allow: here(unresponsive, early), headersMs: 150 })
  for (const { origin } of [unresponsive, early]) {
    const message = `${origin} sent no response within 150 ms.`
    await assert.rejects(get(origin), fails('BACKEND_FAILED', { effect: 'none', retryable: true, message }))
  }
  await assert.rejects(
    get(unresponsive.origin, { method: 'PUT', body: 'x' }),
    fails('BACKEND_FAILED', { effect: 'possible', retryable: false }),
  )
})

test('a stalled body fails after idleMs, and a slow body ends when its signal aborts', async (t) => {
  const head = 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n'
  const stops = await answering(t, `${head}begin`, false)
  const drips = await serveRaw(t, (socket) => {
    socket.write(head)
    const timer = setInterval(() => socket.write('x'), 20)
    socket.on('close', () => clearInterval(timer))
  })
  const { get } = guard(t, { allow: here(stops, drips), idleMs: 150 })
  const message = `${stops.origin} stopped in the middle of its response.`
  await assert.rejects(async () => (await get(stops.origin)).text(), fails('BACKEND_FAILED', { message }))

  const stop = new AbortController()
  const response = await get(drips.origin, { signal: stop.signal })
  let pieces = 0
  const reading = async (): Promise<void> => {
    for await (const _ of response.body) if (++pieces === 3) stop.abort(new Error('enough'))
  }
  await assert.rejects(reading(), /enough/)
})

test('a request may shorten or disable the timeouts', async (t) => {
  const unresponsive = await serveRaw(t, () => {})
  const stops = await answering(t, 'HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\nbegin', false)
  const patient = guard(t, { allow: here(unresponsive, stops), headersMs: 600_000, idleMs: 600_000 })
  await assert.rejects(patient.get(unresponsive.origin, { headersMs: 50 }), fails('BACKEND_FAILED'))
  await assert.rejects(async () => (await patient.get(stops.origin, { idleMs: 50 })).text(), fails('BACKEND_FAILED'))

  const slow = await serveRaw(t, (socket) => {
    socket.once('data', () => setTimeout(() => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok'), 100))
  })
  const hasty = guard(t, { allow: here(slow), headersMs: 20 })
  await assert.rejects(hasty.get(slow.origin), fails('BACKEND_FAILED'))
  const fetched = await hasty.egress.fetch({ owner: 'test', headersMs: 0, idleMs: 0 })(slow.origin)
  assert.equal(await fetched.text(), 'ok')
})

test('response headers named __proto__ or constructor do not reach a prototype', async (t) => {
  const server = await answering(t, 'HTTP/1.1 200 OK\r\n__proto__: x\r\nconstructor: y\r\ncontent-length: 2\r\n\r\nok')
  const { get } = guard(t, { allow: here(server) })
  const response = await get(server.origin)
  assert.equal(await response.text(), 'ok')
  assert.equal(response.headers.get('__proto__'), 'x')
  assert.equal(Object.hasOwn(Object.prototype, 'x'), false)
})
