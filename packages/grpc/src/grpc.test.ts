import assert from 'node:assert/strict'
import { createServer } from 'node:net'
import { type TestContext, test } from 'node:test'
import { type FakeHost, fakeContext, fakeHost, testBackend } from '@gantry/conformance/internal/backend'
import { type Tool, ToolError } from '@gantry/contract'
import type { Backend, BackendContext } from '@gantry/core/internal/backends/backend'
import type { EgressEvent } from '@gantry/core/internal/egress/egress'
import { createEgressGuard } from '@gantry/core/internal/egress/guard'
import { Client, credentials as clientCredentials, logVerbosity, setLogVerbosity } from '@grpc/grpc-js'
import { statusTable } from './exchange.ts'
import { type GrpcOptions, grpc } from './grpc.ts'
import { makeCertificate, type SampleServer, samplePath, sampleService, startSample } from './server.fixture.ts'
import { bytesField, varintField } from './wire.ts'

const never = new AbortController().signal

for (const source of ['proto', 'reflection'] as const) {
  testBackend(`grpc by ${source}`, async () => {
    const server = await startSample({ reflection: source === 'reflection' })
    const egress = createEgressGuard()
    const host = fakeHost(egress)
    const backend = grpc(optionsFor(server, source))
    backend.attach?.(host)
    await backend.discover?.(never)
    return {
      backend,
      add: toolOf(host, 'Calculator.Add'),
      fail: toolOf(host, 'Calculator.Fail'),
      wait: toolOf(host, 'Calculator.Wait'),
      close: async () => {
        server.close()
        await egress.close()
      },
    }
  })
}

interface Sample {
  readonly server: SampleServer
  readonly host: FakeHost
  readonly backend: Backend
  readonly events: readonly EgressEvent[]
  setRules(allow: readonly string[]): void
}

/** A backend and its server, with the tools found; all of it is closed when the test ends. */
async function open(
  t: TestContext,
  options: Partial<GrpcOptions> = {},
  { discover = true, reflection = false }: { readonly discover?: boolean; readonly reflection?: boolean } = {},
): Promise<Sample> {
  const server = await startSample({ reflection })
  const events: EgressEvent[] = []
  const egress = createEgressGuard({ onEvent: (event) => void events.push(event) })
  const host = fakeHost(egress, { token: 'top-secret-value' })
  const backend = grpc({ ...optionsFor(server, reflection ? 'reflection' : 'proto'), ...options })
  backend.attach?.(host)
  t.after(async () => {
    await backend.close?.(AbortSignal.timeout(1_000))
    await egress.close()
    server.close()
  })
  if (discover) await backend.discover?.(never)
  return { server, host, backend, events, setRules: (allow) => egress.setRules(allow) }
}

function optionsFor({ port }: { readonly port: number }, source: 'proto' | 'reflection' = 'proto'): GrpcOptions {
  const from = source === 'proto' ? { proto: samplePath } : { reflection: true }
  return { name: 'sample', address: `grpc://127.0.0.1:${port}`, private: true, ...from }
}

function toolOf(host: FakeHost, name: string): Tool {
  const tool = host.published.at(-1)?.find((each) => each.name === name)
  assert.ok(tool !== undefined, name)
  return tool
}

function call(backend: Backend, method: string, args: object, context: BackendContext = fakeContext()): unknown {
  const binding = { kind: 'grpc', method: `${sampleService}/${method}` }
  const tool = { namespace: 'sample', name: method, version: '1.0.0' } as Tool
  return backend.call({ id: `sample:${method}:1.0.0`, tool, args: args as never, binding }, context)
}

async function errorOf(work: () => unknown): Promise<ToolError> {
  try {
    await work()
  } catch (error) {
    assert.ok(ToolError.is(error), String(error))
    return error
  }
  return assert.fail('it did not fail')
}

function generatorOf(value: unknown): AsyncGenerator<unknown, unknown> {
  assert.equal(Object.prototype.toString.call(value), '[object AsyncGenerator]')
  return value as AsyncGenerator<unknown, unknown>
}

test('each unary-request method becomes a tool, and the service’s own idempotency level is only a hint', async (t) => {
  const { host } = await open(t, { effects: { [`${sampleService}/Add`]: 'read' } })
  const tools = host.published[0] ?? []
  const names = ['Add', 'Fail', 'Wait', 'Count', 'Echo', 'End', 'Shout'].map((name) => `Calculator.${name}`)
  assert.deepEqual(tools.map(({ name }) => name).sort(), names.sort())
  const [add, wait, shout] = ['Add', 'Wait', 'Shout'].map((name) => toolOf(host, `Calculator.${name}`))
  assert.equal(add?.description, 'Adds two whole numbers.\nBoth must be given.')
  assert.equal(add?.effect, 'read')
  assert.equal(wait?.description, 'Ends when it is cancelled.')
  assert.deepEqual([wait?.effect, wait?.annotations?.readOnlyHint], ['once', true])
  assert.ok(shout?.deprecated !== undefined)
  assert.match(shout?.description ?? '', /gantry\.sample\.v1\.Calculator\/Shout, which answers with/)
  assert.deepEqual(add?.backends, [{ kind: 'grpc', name: 'sample', method: `${sampleService}/Add` }])
  const logs = host.reports.filter(({ kind }) => kind === 'log').map(({ message }) => message)
  assert.equal(logs.filter((line) => /(Sum|Chat) is client-streaming/.test(line)).length, 2)
})

test('reflection finds the same tools as the proto file, without their comments', async (t) => {
  const fromFile = (await open(t)).host.published[0]
  const reflected = (await open(t, {}, { reflection: true })).host.published[0]
  const plain = (tools: readonly Tool[] = []) =>
    tools.map((tool) => ({ ...tool, description: '' })).sort((a, b) => (a.name < b.name ? -1 : 1))
  assert.deepEqual(plain(reflected), plain(fromFile))
})

test('`services` selects the tools, and an unknown name in it is reported', async (t) => {
  const { host } = await open(t, { services: [`${sampleService}/Add`, 'no.Such'] })
  assert.deepEqual(
    host.published[0]?.map(({ name }) => name),
    ['Calculator.Add'],
  )
  assert.ok(host.reports.some(({ message }) => message.includes('no.Such')))
})

test('a call before discovery loads the descriptors itself', async (t) => {
  const { backend, host } = await open(t, { tools: false }, { discover: false })
  const first = generatorOf(call(backend, 'Add', { a: 1, b: 2 }))
  assert.deepEqual(await first.next(), { done: true, value: { result: 3 } })
  assert.deepEqual(await call(backend, 'Add', { a: 2, b: 2 }), { result: 4 })
  await backend.discover?.(never)
  assert.deepEqual(host.published, [])
})

test('an unknown or client-streaming method is refused without a request', async (t) => {
  const { backend, server } = await open(t)
  for (const method of ['Nothing', 'Sum']) {
    assert.equal((await errorOf(() => call(backend, method, {}))).code, 'NO_BACKEND')
  }
  assert.equal(server.seen.length, 0)
})

test('a value of every type survives a round trip through a real server', async (t) => {
  const { backend, server } = await open(t)
  const args = { anInt64: '-5', colour: 'RED', byName: { a: 1 }, tree: { label: 'x' }, at: '2026-01-01T00:00:00Z' }
  const output = (await call(backend, 'Echo', args)) as { [name: string]: unknown }
  assert.deepEqual([output.anInt64, output.colour, output.byName, output.at], ['-5', 'RED', { a: 1 }, args.at])
  assert.deepEqual(output.tree, { label: 'x', children: [] })
  assert.equal(server.echoed[0]?.an_int64, '-5')
  assert.equal(await call(backend, 'Shout', { value: 'hey' }), 'HEY')
})

test('a server stream yields chunks with backpressure', async (t) => {
  const { backend, server } = await open(t)
  const chunks = generatorOf(call(backend, 'Count', { to: 1_000, padding: 10_000 }))
  const first = (await chunks.next()).value as { number: number }
  assert.equal(first.number, 1)
  let before = -1
  // The server stops at full windows: while the stream is not read, the count stays far below the end.
  while (server.counted() !== before) {
    before = server.counted()
    for (let turn = 0; turn < 200; turn++) await new Promise((resolve) => setImmediate(resolve))
  }
  assert.ok(server.counted() < 300, String(server.counted()))
  let last = 1
  for await (const chunk of chunks) last = (chunk as { number: number }).number
  assert.equal(last, 1_000)
})

test('returning early from a stream cancels it at the server', async (t) => {
  const { backend, server } = await open(t)
  for await (const _chunk of generatorOf(call(backend, 'Count', { to: 1_000_000, padding: 1_000 }))) break
  await server.cancelled
})

test('an aborted call is cancelled at the server, and the connection serves the next call', async (t) => {
  const { backend, server, events } = await open(t)
  const controller = new AbortController()
  const waiting = call(backend, 'Wait', {}, fakeContext(controller.signal))
  await server.waiting
  controller.abort(new Error('enough'))
  await assert.rejects(waiting as Promise<unknown>, /enough/)
  await server.cancelled
  assert.deepEqual(await call(backend, 'Add', { a: 1, b: 1 }), { result: 2 })
  assert.equal(events.length, 1)
})

test('metadata carries the idempotency key and secrets, which are resolved for each call', async (t) => {
  const { backend, server } = await open(t, {
    metadata: { authorization: 'Bearer secret:token', 'trace-bin': Buffer.from('hi').toString('base64') },
  })
  const binding = {
    kind: 'grpc',
    method: `${sampleService}/Add`,
    metadata: { 'x-own': 'tool', authorization: 'secret:two' },
  }
  await backend.call({ id: 'x', tool: {} as Tool, args: { a: 1, b: 1 }, binding }, fakeContext())
  await call(backend, 'Add', { a: 1, b: 1 })
  const [own, plain] = server.seen
  assert.deepEqual(own?.get('authorization'), ['value-of-two'])
  assert.deepEqual([own?.get('x-own'), own?.get('idempotency-key')], [['tool'], ['call-1']])
  assert.deepEqual(plain?.get('authorization'), ['Bearer value-of-token'])
  assert.deepEqual(plain?.get('trace-bin'), [Buffer.from('hi')])
})

test('a secret with a line break cannot inject a header', async (t) => {
  const { backend, server } = await open(t, { metadata: { authorization: 'secret:token' } })
  const context = { ...fakeContext(), secret: async () => 'a\r\nx-admin: 1' }
  const error = await errorOf(() => call(backend, 'Add', { a: 1, b: 1 }, context))
  assert.equal(error.code, 'SECRET_UNAVAILABLE')
  assert.ok(!error.message.includes('x-admin'))
  assert.equal(server.seen.length, 0)
})

test('every gRPC status maps to an error code', async (t) => {
  const { backend } = await open(t)
  const expected: { readonly [name: string]: readonly [string, boolean] } = {
    PERMISSION_DENIED: ['DENIED', false],
    UNAUTHENTICATED: ['DENIED', false],
    RESOURCE_EXHAUSTED: ['RATE_LIMITED', true],
    DEADLINE_EXCEEDED: ['BACKEND_FAILED', true],
    ABORTED: ['BACKEND_FAILED', true],
    UNAVAILABLE: ['BACKEND_FAILED', true],
  }
  assert.equal(statusTable.length, 17)
  for (const [status, { name }] of [...statusTable.entries()].slice(1)) {
    const error = await errorOf(() => call(backend, 'End', { code: status, message: `it was ${name} ü` }))
    const [code, retryable] = expected[name] ?? ['BACKEND_FAILED', false]
    assert.deepEqual([error.code, error.retryable], [code, retryable], name)
    assert.equal(error.message, `it was ${name} ü`)
    assert.deepEqual(error.details?.grpc, { status, name })
    assert.equal(error.effect, code === 'DENIED' ? 'none' : 'possible', name)
  }
  const strange = await errorOf(() => call(backend, 'End', { code: 77, message: 'odd' }))
  assert.equal(strange.code, 'BACKEND_FAILED')
})

test('RetryInfo of the server becomes retryAfterMs', async (t) => {
  const { backend } = await open(t)
  const delay = Buffer.concat([varintField(1, 2), varintField(2, 500_000_000)])
  const any = [bytesField(1, 'type.googleapis.com/google.rpc.RetryInfo'), bytesField(2, bytesField(1, delay))]
  const details = Buffer.concat([varintField(1, 8), bytesField(3, Buffer.concat(any))]).toString('base64')
  const error = await errorOf(() => call(backend, 'End', { code: 8, message: 'later', details }))
  assert.deepEqual([error.code, error.details?.retryAfterMs], ['RATE_LIMITED', 2_500])
})

test('a stopped server is unavailable, and the backend reconnects when it restarts', async (t) => {
  const { backend, server, events } = await open(t)
  assert.deepEqual(await call(backend, 'Add', { a: 1, b: 1 }), { result: 2 })
  server.close()
  await assert.rejects(
    async () => {
      while (true) await call(backend, 'Add', { a: 1, b: 1 })
    },
    (error) => ToolError.is(error) && ['BACKEND_FAILED', 'BACKEND_UNAVAILABLE'].includes(error.code),
  )
  const error = await errorOf(() => call(backend, 'Add', { a: 1, b: 1 }))
  assert.deepEqual([error.code, error.effect], ['BACKEND_UNAVAILABLE', 'none'])
  const again = await startSample({ port: server.port })
  t.after(() => again.close())
  assert.deepEqual(await call(backend, 'Add', { a: 1, b: 2 }), { result: 3 })
  assert.deepEqual(events.filter(({ outcome }) => outcome === 'connected').length, 2)
})

test('health follows the connection when the server has no health service', async (t) => {
  const { backend, server } = await open(t)
  assert.deepEqual(await backend.health?.(never), { status: 'up' })
  server.close()
  while ((await backend.health?.(never))?.status === 'up');
  assert.equal((await backend.health?.(never))?.status, 'down')
})

test('the backend opens no connection after close', async (t) => {
  const { backend, events } = await open(t)
  await backend.close?.(never)
  assert.equal((await errorOf(() => call(backend, 'Add', { a: 1, b: 1 }))).code, 'BACKEND_UNAVAILABLE')
  assert.equal(events.length, 0)
})

test('TLS is verified: a wrong name and an unknown authority are refused', async (t) => {
  const tls = makeCertificate('calc.test')
  const address = (port: number) => `grpcs://127.0.0.1:${port}`
  const server = await startSample({ tls })
  t.after(() => server.close())
  const attempt = async (options: GrpcOptions['tls']) => {
    const egress = createEgressGuard()
    const backend = grpc({ ...optionsFor(server), address: address(server.port), ...(options ? { tls: options } : {}) })
    backend.attach?.(fakeHost(egress, { ca: tls.cert.toString() }))
    try {
      await backend.discover?.(never)
      return await call(backend, 'Add', { a: 1, b: 1 })
    } finally {
      await backend.close?.(AbortSignal.timeout(1_000))
      await egress.close()
    }
  }
  assert.deepEqual(await attempt({ ca: tls.cert, serverName: 'calc.test' }), { result: 2 })
  assert.deepEqual(await attempt({ ca: 'secret:ca', serverName: 'calc.test' }), { result: 2 })
  for (const wrong of [
    { ca: tls.cert, serverName: 'other.test' },
    { ca: tls.cert },
    { serverName: 'calc.test' },
    true,
  ]) {
    assert.equal((await errorOf(() => attempt(wrong))).code, 'BACKEND_UNAVAILABLE')
  }
  assert.equal(server.seen.length, 2)
})

test('the backend presents its client certificate to a server that requires one', async (t) => {
  const client = makeCertificate('client.test')
  const tls = { ...makeCertificate('calc.test'), caForClients: client.cert }
  const own = { ca: tls.cert, serverName: 'calc.test' }
  const server = await startSample({ tls })
  t.after(() => server.close())
  const open = async (options: NonNullable<GrpcOptions['tls']>) => {
    const egress = createEgressGuard()
    const backend = grpc({ ...optionsFor(server), address: `127.0.0.1:${server.port}`, tls: options })
    backend.attach?.(fakeHost(egress))
    t.after(async () => {
      await backend.close?.(AbortSignal.timeout(1_000))
      await egress.close()
    })
    await backend.discover?.(never)
    return backend
  }
  const shown = await open({ ...own, cert: client.cert, key: client.key })
  assert.deepEqual(await call(shown, 'Add', { a: 1, b: 1 }), { result: 2 })
  const unresponsive = await open(own)
  assert.equal((await errorOf(() => call(unresponsive, 'Add', { a: 1, b: 1 }))).code, 'BACKEND_UNAVAILABLE')
})

test('the backend does not connect to an address that egress denies', async (t) => {
  let touched = 0
  const listener = createServer((socket) => {
    touched += 1
    socket.destroy()
  })
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  t.after(() => void listener.close())
  const { port } = listener.address() as { port: number }
  const attempt = async (allow: readonly string[] | undefined, secret: boolean) => {
    const egress = createEgressGuard(allow === undefined ? {} : { allow })
    const backend = grpc({ ...optionsFor({ port }), private: secret })
    backend.attach?.(fakeHost(egress))
    await backend.discover?.(never)
    const error = await errorOf(() => call(backend, 'Add', { a: 1, b: 1 }))
    await backend.close?.(never)
    await egress.close()
    return error.code
  }
  assert.equal(await attempt([], true), 'EGRESS_DENIED')
  assert.equal(await attempt(['https://api.example.com'], true), 'EGRESS_DENIED')
  assert.equal(await attempt(undefined, false), 'EGRESS_DENIED')
  assert.equal(touched, 0)
  assert.equal(await attempt(undefined, true), 'BACKEND_UNAVAILABLE')
  assert.equal(touched, 1)
})

test('changed egress rules close a connection that they deny', async (t) => {
  const { backend, server, setRules } = await open(t)
  assert.deepEqual(await call(backend, 'Add', { a: 1, b: 1 }), { result: 2 })
  setRules([])
  await assert.rejects(async () => {
    while (true) await call(backend, 'Add', { a: 1, b: 1 })
  })
  assert.equal((await errorOf(() => call(backend, 'Add', { a: 1, b: 1 }))).code, 'EGRESS_DENIED')
  assert.equal(server.seen.length, 1)
})

test('proxy environment variables are ignored', async (t) => {
  let touched = 0
  const reached = Promise.withResolvers<void>()
  const proxy = createServer((socket) => {
    touched += 1
    reached.resolve()
    socket.destroy()
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.after(() => void proxy.close())
  const names = ['grpc_proxy', 'http_proxy', 'https_proxy', 'HTTP_PROXY', 'HTTPS_PROXY']
  const before = names.map((name) => [name, process.env[name]] as const)
  t.after(() => {
    for (const [name, value] of before) {
      if (value === undefined) delete process.env[name]
      else process.env[name] = value
    }
  })
  for (const name of names) process.env[name] = `http://127.0.0.1:${(proxy.address() as { port: number }).port}`
  const { backend, server } = await open(t)
  assert.deepEqual(await call(backend, 'Add', { a: 1, b: 1 }), { result: 2 })
  assert.equal(touched, 0)
  // The usual client does follow them, so they are set as an attacker would.
  setLogVerbosity(logVerbosity.NONE)
  const usual = new Client(`127.0.0.1:${server.port}`, clientCredentials.createInsecure())
  usual.getChannel().getConnectivityState(true)
  await reached.promise
  usual.close()
})
