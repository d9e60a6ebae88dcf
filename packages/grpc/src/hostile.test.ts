import assert from 'node:assert/strict'
import { constants, createServer, type Http2Server, type ServerHttp2Session, type ServerHttp2Stream } from 'node:http2'
import { createServer as createTcpServer, type Server } from 'node:net'
import { type TestContext, test } from 'node:test'
import { fakeContext, fakeHost } from '@gantry/conformance/internal/backend'
import { type Tool, ToolError } from '@gantry/contract'
import type { Backend, BackendContext } from '@gantry/core/internal/backends/backend'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import { type GrpcOptions, grpc } from './grpc.ts'
import { samplePath, sampleService } from './server.fixture.ts'
import { bytesField } from './wire.ts'

const never = new AbortController().signal
const ok = { ':status': 200, 'content-type': 'application/grpc' }

type Answer = (stream: ServerHttp2Stream, path: string) => void

/** Something that speaks HTTP/2 but is no honest gRPC server, and a backend that calls it. */
async function against(
  t: TestContext,
  answer: Answer,
  options: Partial<GrpcOptions> = {},
): Promise<{ backend: Backend; sessions: Set<ServerHttp2Session> }> {
  const server = createServer()
  const sessions = new Set<ServerHttp2Session>()
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => undefined)
  })
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined)
    answer(stream, String(headers[':path']))
  })
  const port = await listen(t, server, () => {
    for (const session of sessions) session.destroy()
  })
  return { backend: backendFor(t, port, options), sessions }
}

async function listen(t: TestContext, server: Server | Http2Server, end: () => void): Promise<number> {
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()))
  t.after(() => {
    end()
    server.close()
  })
  return (server.address() as { port: number }).port
}

function backendFor(t: TestContext, port: number, options: Partial<GrpcOptions> = {}): Backend {
  const egress = createEgressGuard()
  const source = options.reflection === true ? {} : { proto: samplePath }
  const backend = grpc({ name: 'bad', address: `grpc://127.0.0.1:${port}`, private: true, ...source, ...options })
  backend.attach?.(fakeHost(egress))
  t.after(async () => {
    await backend.close?.(AbortSignal.abort())
    await egress.close()
  })
  return backend
}

async function errorOf(
  backend: Backend,
  method = 'Add',
  context: BackendContext = fakeContext(),
): Promise<ToolError & { readonly chunks: number }> {
  let chunks = 0
  try {
    await backend.discover?.(never)
    const call = { id: 'bad:tool:1.0.0', tool: {} as Tool, args: {}, binding: { method: `${sampleService}/${method}` } }
    const raw = backend.call(call, context)
    if (method !== 'Count') await raw
    else for await (const _chunk of raw as AsyncIterable<unknown>) chunks += 1
  } catch (error) {
    assert.ok(ToolError.is(error), String(error))
    return Object.assign(error, { chunks })
  }
  return assert.fail('it did not fail')
}

function frame(message: Buffer, { flag = 0, length = message.length } = {}): Buffer {
  const head = Buffer.alloc(5)
  head[0] = flag
  head.writeUInt32BE(length, 1)
  return Buffer.concat([head, message])
}

/** Answers with this body and then this status. */
function answering(body: Buffer, trailers: { readonly [name: string]: string } = { 'grpc-status': '0' }): Answer {
  return (stream) => {
    stream.respond(ok, { waitForTrailers: true })
    stream.once('wantTrailers', () => stream.sendTrailers(trailers))
    stream.end(body)
  }
}

test('a message over the size limit is refused by its length prefix', async (t) => {
  const { backend } = await against(t, (stream) => {
    stream.respond(ok)
    stream.write(frame(Buffer.alloc(10), { length: 5_000_000 }))
  })
  const error = await errorOf(backend)
  assert.equal(error.code, 'RESULT_TOO_LARGE')
  assert.match(error.message, /5000000 bytes; maxResponseBytes is 4194304/)
  const small = await against(t, answering(frame(Buffer.alloc(101))), { maxResponseBytes: 100 })
  assert.equal((await errorOf(small.backend)).code, 'RESULT_TOO_LARGE')
})

test('a small response that expands to millions of values is refused', async (t) => {
  // Echo answers with Everything, whose field 27 is a Tree; its field 2 is a list of Trees.
  const empties = Buffer.alloc(1_000_000, Buffer.from([0x12, 0]))
  const { backend } = await against(t, answering(frame(bytesField(27, empties))))
  const error = await errorOf(backend, 'Echo')
  assert.deepEqual([error.code, error.effect], ['RESULT_TOO_LARGE', 'possible'])
})

test('a response nested beyond the limit is refused', async (t) => {
  let tree: Buffer = Buffer.alloc(0)
  for (let level = 0; level < 5_000; level++) tree = bytesField(2, tree)
  const { backend } = await against(t, answering(frame(bytesField(27, tree))))
  assert.equal((await errorOf(backend, 'Echo')).code, 'RESULT_TOO_LARGE')
})

test('bytes that are not a message fail the call', async (t) => {
  for (const bytes of [[0x08], [0x0a, 0x7f, 1], [0x00, 1], [0x0f], Array(20).fill(0xff), [0x0b, 0x0b, 0x0b]]) {
    const { backend } = await against(t, answering(frame(Buffer.from(bytes))))
    assert.equal((await errorOf(backend)).code, 'BACKEND_FAILED', String(bytes))
  }
})

test('a connection that breaks in the middle of a stream fails its call with effect possible', async (t) => {
  const { backend } = await against(t, (stream) => {
    stream.respond(ok)
    stream.write(frame(Buffer.from([8, 1])), () => setImmediate(() => stream.session?.destroy()))
  })
  const error = await errorOf(backend, 'Count')
  assert.equal(error.chunks, 1)
  assert.deepEqual([error.code, error.effect, error.retryable], ['BACKEND_FAILED', 'possible', true])
})

test('an improper end of the response fails the call', async (t) => {
  const good = frame(Buffer.from([8, 1]))
  const ends: { readonly [name: string]: Answer } = {
    'without trailers': (stream) => {
      stream.respond(ok)
      stream.end(good)
    },
    'with trailers without a status': answering(good, { 'x-other': '1' }),
    'with a status that is not a number': answering(good, { 'grpc-status': 'fine' }),
    'inside a message': answering(good.subarray(0, 6)),
    'after two responses instead of one': answering(Buffer.concat([good, good])),
    'without a response': answering(Buffer.alloc(0)),
    'with a compressed message': answering(frame(Buffer.from([8, 1]), { flag: 1 })),
    'with a web page': (stream) => {
      stream.respond({ ':status': 200, 'content-type': 'text/html' })
      stream.end('<h1>hello</h1>')
    },
    'with a reset': (stream) => stream.close(2),
  }
  for (const [name, answer] of Object.entries(ends)) {
    const { backend } = await against(t, answer)
    const error = await errorOf(backend)
    assert.deepEqual([error.code, error.effect], ['BACKEND_FAILED', 'possible'], name)
  }
})

test('a stream that ends inside a message fails, whatever its status', async (t) => {
  const good = frame(Buffer.from([8, 1]))
  const { backend } = await against(t, answering(Buffer.concat([good, good.subarray(0, 6)])))
  const error = await errorOf(backend, 'Count')
  assert.deepEqual([error.code, error.chunks], ['BACKEND_FAILED', 1])
})

test('an aborted call resets its stream with CANCEL', async (t) => {
  const begun = Promise.withResolvers<void>()
  const reset = Promise.withResolvers<number>()
  const { backend } = await against(t, (stream) => {
    stream.once('close', () => reset.resolve(stream.rstCode))
    begun.resolve()
  })
  await backend.discover?.(never)
  const controller = new AbortController()
  const call = { id: 'x', tool: {} as Tool, args: {}, binding: { method: `${sampleService}/Add` } }
  const waiting = backend.call(call, fakeContext(controller.signal)) as Promise<unknown>
  await begun.promise
  controller.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  assert.equal(await reset.promise, constants.NGHTTP2_CANCEL)
})

test('the HTTP status of a proxy’s error page maps to an error code', async (t) => {
  for (const [http, code] of [
    [401, 'DENIED'],
    [403, 'DENIED'],
    [503, 'BACKEND_FAILED'],
  ] as const) {
    const { backend } = await against(t, (stream) => {
      stream.respond({ ':status': http, 'content-type': 'text/html' })
      stream.end('no')
    })
    assert.equal((await errorOf(backend)).code, code)
  }
})

test('only an HTTP/2 REFUSED_STREAM has effect none; gRPC status UNAVAILABLE does not', async (t) => {
  const refused = await against(t, (stream) => stream.close(7))
  const error = await errorOf(refused.backend)
  assert.deepEqual([error.code, error.effect], ['BACKEND_UNAVAILABLE', 'none'])
  const said = await against(t, (stream) => {
    stream.respond({ ...ok, 'grpc-status': '14' }, { endStream: true })
  })
  assert.deepEqual([(await errorOf(said.backend)).code], ['BACKEND_FAILED'])
})

test('too many headers fail the call, and a long status message is truncated', async (t) => {
  const many = Object.fromEntries(Array.from({ length: 500 }, (_none, index) => [`x-${index}`, 'y'.repeat(500)]))
  const { backend } = await against(t, (stream) => stream.respond({ ...ok, ...many }))
  assert.equal((await errorOf(backend)).effect, 'possible')
  const long = await against(t, answering(Buffer.alloc(0), { 'grpc-status': '3', 'grpc-message': '%zz'.repeat(4_000) }))
  assert.ok((await errorOf(long.backend)).message.length <= 65_536)
})

test('the backend sends no new call on a connection after GOAWAY', async (t) => {
  const { backend, sessions } = await against(t, (stream) => {
    answering(frame(Buffer.from([8, 1])))(stream, '')
    stream.session?.goaway(0)
  })
  await backend.discover?.(never)
  const call = { id: 'x', tool: {} as Tool, args: {}, binding: { method: `${sampleService}/Add` } }
  for (let round = 0; round < 3; round++) assert.deepEqual(await backend.call(call, fakeContext()), { result: 1 })
  assert.ok(sessions.size > 1, String(sessions.size))
})

test('a server that does not speak HTTP/2 is unavailable', async (t) => {
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined)
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
  })
  const backend = backendFor(t, await listen(t, server, () => undefined))
  const error = await errorOf(backend)
  assert.deepEqual([error.code, error.effect], ['BACKEND_UNAVAILABLE', 'none'])
})

test('an aborted signal ends a call to a server that never responds', async (t) => {
  const open = new Set<{ destroy(): void }>()
  const connected = Promise.withResolvers<void>()
  const server = createTcpServer((socket) => {
    socket.on('error', () => undefined)
    open.add(socket)
    connected.resolve()
  })
  const port = await listen(t, server, () => {
    for (const socket of open) socket.destroy()
  })
  const backend = backendFor(t, port)
  await backend.discover?.(never)
  const controller = new AbortController()
  const call = { id: 'x', tool: {} as Tool, args: {}, binding: { method: `${sampleService}/Add` } }
  const waiting = backend.call(call, fakeContext(controller.signal)) as Promise<unknown>
  await connected.promise
  controller.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
})

/** A reflection service that answers each request, by its field and text, with these bytes. */
function reflecting(reply: (field: number, text: string) => Buffer): Answer {
  return (stream) => {
    stream.once('data', (data: Buffer) => {
      const field = (data[5] ?? 0) >> 3
      answering(frame(reply(field, data.subarray(7).toString())))(stream, '')
    })
  }
}

function services(names: readonly string[]): Buffer {
  return bytesField(6, Buffer.concat(names.map((name) => bytesField(1, bytesField(1, name)))))
}

function files(...protos: readonly Buffer[]): Buffer {
  return bytesField(4, Buffer.concat(protos.map((proto) => bytesField(1, proto))))
}

test('reflection is limited in services, files and bytes', async (t) => {
  let counter = 0
  const bombs: { readonly [name: string]: (field: number, text: string) => Buffer } = {
    'names more than 500 services': () => services(Array.from({ length: 5_000 }, (_none, index) => `s.S${index}`)),
    'brings more than 1000 files': (field, text) =>
      field === 7
        ? services(['s.S'])
        : files(Buffer.concat([bytesField(1, field === 4 ? 'first' : text), bytesField(3, `next${counter++}`)])),
    'sends more than 8388608 bytes': (field, text) =>
      field === 7
        ? services(['s.S', 's.T', 's.U'])
        : files(Buffer.concat([bytesField(1, text), bytesField(9, Buffer.alloc(3_000_000))])),
  }
  for (const [name, bomb] of Object.entries(bombs)) {
    const { backend } = await against(t, reflecting(bomb), { reflection: true })
    const error = await errorOf(backend)
    assert.equal(error.code, 'LIMIT_EXCEEDED', name)
    assert.ok(error.message.includes(name), error.message)
  }
})

test('invalid descriptors fail discovery', async (t) => {
  const message = (name: string) => bytesField(4, bytesField(1, name))
  const wrong: { readonly [name: string]: Buffer } = {
    'a dependency that is missing': bytesField(3, 'missing.proto'),
    'an invalid name': message('__proto__.x'),
    'a path in a service name': bytesField(6, bytesField(1, '../admin')),
    'the same message twice': Buffer.concat([message('A'), message('A')]),
    'bytes that are not a descriptor': Buffer.from([0x22, 0x05, 0x01]),
    'too many fields': bytesField(4, Buffer.concat([bytesField(1, 'A'), Buffer.alloc(1_800_000, 'ogYA', 'base64')])),
  }
  for (const [name, bytes] of Object.entries(wrong)) {
    const file = Buffer.concat([bytesField(1, 'a.proto'), bytes])
    const reply = (field: number) => (field === 7 ? services(['s.S']) : files(file))
    const { backend } = await against(t, reflecting(reply), { reflection: true })
    const error = await errorOf(backend)
    assert.deepEqual([error.code, error.effect], ['BACKEND_FAILED', 'none'], name)
  }
})

test('the backend uses v1alpha reflection when v1 is not implemented', async (t) => {
  const asked: string[] = []
  const { backend } = await against(
    t,
    (stream, path) => {
      asked.push(path)
      if (path.includes('v1alpha')) reflecting(() => services([]))(stream, path)
      else stream.respond({ ...ok, 'grpc-status': '12' }, { endStream: true })
    },
    { reflection: true },
  )
  await backend.discover?.(never)
  const name = 'ServerReflection/ServerReflectionInfo'
  assert.deepEqual(asked, [`/grpc.reflection.v1.${name}`, `/grpc.reflection.v1alpha.${name}`])
})

test('health follows the server’s health service', async (t) => {
  for (const [value, status] of [
    [1, 'up'],
    [2, 'down'],
  ] as const) {
    const { backend } = await against(t, answering(frame(Buffer.from([8, value]))))
    assert.equal((await backend.health?.(never))?.status, status)
  }
})
