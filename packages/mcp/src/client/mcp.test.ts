import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { testBackend } from '@gantry/conformance/internal/backend'
import { ToolError } from '@gantry/contract'
import type { ProgressReport } from '@gantry/core/internal/backends/backend'
import { isGone, open, progressInto, published, raw, toolNamed, until } from './backend.fixture.ts'

testBackend('mcp', async () => {
  const opened = open({ command: raw('plain') })
  const { backend } = opened
  return {
    backend: {
      ...backend,
      // A backend of this kind gives the protocol's result, which the pipeline takes apart.
      call: async (call, context) =>
        ((await backend.call(call, context)) as { structuredContent: unknown }).structuredContent,
    },
    add: toolNamed('add'),
    fail: toolNamed('fail'),
    wait: toolNamed('wait'),
    close: async () => opened[Symbol.asyncDispose](),
  }
})

test('the backend discovers the tools of the everything server with their descriptions', async () => {
  await using server = open({ command: published('server-everything') })
  const tools = await server.discover()
  const weather = tools.find(({ name }) => name === 'get-structured-content')
  assert.equal(weather?.namespace, 'test')
  assert.equal(weather?.version, '1.0.0')
  assert.equal(weather?.title, 'Get Structured Content Tool')
  assert.ok(weather?.outputSchema !== undefined)
  assert.equal(weather?.effect, 'once', 'a hint of the server is no word of the host')
  assert.equal(weather?.annotations?.idempotentHint, true)
  assert.deepEqual(weather?.backends, [{ kind: 'mcp', name: 'test', tool: 'get-structured-content' }])
})

test('structured content, images and resources of the everything server arrive unchanged', async () => {
  await using server = open({ command: published('server-everything') })
  const weather = await server.call('get-structured-content', { location: 'Chicago' })
  assert.deepEqual(weather.structuredContent, { temperature: 36, conditions: 'Light rain / drizzle', humidity: 82 })
  const image = await server.call('get-tiny-image')
  const picture = image.content.find(({ type }) => type === 'image')
  assert.equal(
    Buffer.from(picture?.data ?? '', 'base64')
      .subarray(1, 4)
      .toString(),
    'PNG',
  )
  const links = await server.call('get-resource-links', { count: 2 })
  assert.equal(links.content.filter(({ type }) => type === 'resource_link').length, 2)
})

test('progress of the everything server is delivered to its own call', async () => {
  await using server = open({ command: published('server-everything') })
  const seen: [ProgressReport[], ProgressReport[]] = [[], []]
  const long = (steps: number, reports: ProgressReport[]) =>
    server.call('trigger-long-running-operation', { duration: 0.1, steps }, progressInto(reports))
  await Promise.all([long(2, seen[0]), long(3, seen[1])])
  assert.deepEqual(seen[0].at(-1), { progress: 2, total: 2 })
  assert.deepEqual(seen[1].at(-1), { progress: 3, total: 3 })
})

test('the filesystem server reads files in its allowed directory and refuses others', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-mcp-'))
  try {
    await writeFile(join(folder, 'note.txt'), 'remember the milk')
    await using server = open({ command: published('server-filesystem', folder) })
    const note = await server.call('read_text_file', { path: join(folder, 'note.txt') })
    assert.equal(note.content[0]?.text, 'remember the milk')
    const outside = await server.call('read_text_file', { path: '/etc/hostname' })
    assert.equal(outside.isError, true)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

test('the memory server stores its facts in the file named by its environment variable', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'gantry-mcp-'))
  try {
    const file = join(folder, 'memory.jsonl')
    await using server = open({ command: published('server-memory'), env: { MEMORY_FILE_PATH: file } })
    const entity = { name: 'Ada', entityType: 'person', observations: ['writes programs'] }
    await server.call('create_entities', { entities: [entity] })
    assert.match(await readFile(file, 'utf8'), /writes programs/)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
})

test('a cancelled call is cancelled at the server too', async () => {
  await using server = open({ command: raw('plain') })
  const stop = new AbortController()
  const started = Promise.withResolvers<void>()
  const waiting = server.call('wait', {}, { signal: stop.signal, progress: () => started.resolve() })
  await started.promise
  stop.abort(new Error('enough'))
  await assert.rejects(waiting, /enough/)
  assert.equal((await server.call('cancelled')).content[0]?.text, '1')
})

test('a server that dies during a call fails that call and serves the next', async () => {
  await using server = open({ command: raw('plain') })
  await server.discover()
  await assert.rejects(server.call('die'), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'BACKEND_FAILED')
    assert.equal(error.effect, 'possible')
    assert.match(error.message, /ended with exit code 3\..*about to die of U\+0007 boredom|about to die of {2}U\+0007/)
    return true
  })
  assert.deepEqual((await server.call('add', { a: 2, b: 2 })).structuredContent, { result: 4 })
  const kinds = server.host.reports.map(({ kind }) => kind).filter((kind) => kind !== 'log')
  assert.deepEqual(kinds, ['up', 'changed', 'down', 'restarting', 'up'])
})

test('the backend restarts a server that was killed from outside', async () => {
  await using server = open({ command: raw('plain') })
  const { pid } = JSON.parse((await server.call('pid')).content[0]?.text ?? '{}')
  process.kill(pid, 'SIGKILL')
  await until(() => server.host.reports.filter(({ kind }) => kind === 'up').length === 2)
  assert.ok(server.host.reports.some(({ kind, message }) => kind === 'down' && message.includes('SIGKILL')))
})

test('every call carries its idempotency key and a progress token', async () => {
  await using server = open({ command: raw('plain') })
  const meta = JSON.parse((await server.call('meta', {}, { idempotencyKey: 'key-7' })).content[0]?.text ?? '{}')
  assert.equal(meta['gantry/idempotencyKey'], 'key-7')
  assert.notEqual(meta.progressToken, undefined)
})

test('a result with isError is passed on unchanged, for the pipeline to judge', async () => {
  await using server = open({ command: raw('plain') })
  assert.deepEqual(await server.call('error-result'), {
    content: [{ type: 'text', text: 'it did not work' }],
    isError: true,
  })
})

test('a protocol error becomes a failure with the server’s message and no control characters', async () => {
  await using server = open({ command: raw('plain') })
  await assert.rejects(server.call('fail'), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'BACKEND_FAILED')
    assert.equal(error.retryable, false)
    assert.equal(error.message, 'it broke U+001B [2J')
    assert.deepEqual(error.details, { rpcCode: -32_602 })
    return true
  })
})

test('a log message of the server is delivered to the only running call', async () => {
  await using server = open({ command: raw('plain') })
  const lines: unknown[][] = []
  await server.call('log', {}, { log: (...line: unknown[]) => void lines.push(line) })
  assert.deepEqual(lines, [['warn', 'mind the gap']])
})

test('health is up for a server that responds and down for one that cannot be started', async () => {
  await using good = open({ command: raw('plain') })
  assert.deepEqual(await good.backend.health?.(AbortSignal.timeout(10_000)), { status: 'up' })
  await using bad = open({ command: ['/nowhere/at-all'] })
  const health = await bad.backend.health?.(AbortSignal.timeout(10_000))
  assert.equal(health?.status, 'down')
  assert.match(health?.message ?? '', /"\/nowhere\/at-all" of the MCP server test could not be started/)
})

test('child processes of a server end with it, also when the server itself was killed', async () => {
  const server = open({ command: raw('plain'), restart: { attempts: 0 } })
  const pidOf = async (tool: string) => JSON.parse((await server.call(tool)).content[0]?.text ?? '{}').pid as number
  const [own, helper] = [await pidOf('pid'), await pidOf('helper')]
  process.kill(own, 'SIGKILL')
  await until(() => isGone(helper))
  const another = await pidOf('helper')
  await server[Symbol.asyncDispose]()
  await until(() => isGone(another))
})

for (const kind of ['either era', 'modern-only']) {
  test(`the client calls a server of 2026-07-28 over stdio (${kind})`, async () => {
    const script = join(import.meta.dirname, 'sdk-stdio.fixture.ts')
    await using server = open({
      command: [process.execPath, script, kind],
      onElicitation: async () => ({ action: 'decline' }),
    })
    assert.equal((await server.discover()).length, 4)
    assert.deepEqual((await server.call('add', { a: 2, b: 3 })).structuredContent, { result: 5 })
    assert.match(JSON.stringify((await server.call('ask')).structuredContent), /"action":"decline"/)
    assert.deepEqual(await server.backend.health?.(AbortSignal.timeout(5_000)), { status: 'up' })
  })
}

test('close ends the program and refuses later calls', async () => {
  const server = open({ command: raw('stubborn') })
  const { pid } = JSON.parse((await server.call('pid')).content[0]?.text ?? '{}')
  await server[Symbol.asyncDispose]()
  assert.throws(() => process.kill(pid, 0), /ESRCH/)
  await assert.rejects(server.call('add', { a: 1, b: 1 }), { code: 'BACKEND_UNAVAILABLE' })
})
