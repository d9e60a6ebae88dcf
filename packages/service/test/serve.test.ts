import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, type TestContext, test } from 'node:test'
import { postgresDatabase } from './databases.fixture.ts'
import { type ServeProcess, serviceFolder, startServe, until } from './serve.fixture.ts'
import { type Ended, gantry } from './spawn.fixture.ts'

/** Runs a command in the folder of a service. */
function command(folder: string, line: readonly string[]): Promise<Ended> {
  return gantry(line, { folder, cache: join(folder, '.cache') })
}

function logged(t: TestContext, service: ServeProcess, what: RegExp): Promise<void> {
  return until(t, () => what.test(service.printed.err))
}

const add = { tool: 'demo:add', args: { a: 5, b: 3 } }

describe('gantry serve', () => {
  // Creating a database is slow, so that the first test's database is copied for the others.
  const kept = mkdtempSync(join(tmpdir(), 'gantry-serve-'))
  const database = join(kept, 'db')
  after(() => rmSync(kept, { recursive: true, force: true }))

  test('the first start creates a key, prints its address, and serves calls', async (t) => {
    const folder = serviceFolder(t)
    const service = startServe(t, folder)
    const url = await service.ready
    assert.equal(service.printed.out, `listening on ${url}\nready\n`)
    assert.equal(statSync(join(folder, '.gantry', 'key')).mode & 0o777, 0o600)
    const key = readFileSync(join(folder, '.gantry', 'key'), 'utf8').trim()
    await logged(t, service, /"curl"/)
    for (const line of service.printed.err.trimEnd().split('\n')) assert.ok(typeof JSON.parse(line).msg === 'string')
    assert.ok(!service.printed.err.includes(key), 'the key itself is not printed')

    const { status, value } = await service.post('/v1/calls', add)
    assert.deepEqual([status, value.status, value.output], [200, 'ok', { result: 8 }])
    // Runs the curl command that the log suggests.
    const { curl } = JSON.parse(service.printed.err.split('\n').find((line) => line.includes('"curl"')) ?? '{}')
    const typed = spawnSync('bash', ['-c', curl], { encoding: 'utf8' })
    if (typed.status !== 127) assert.deepEqual(JSON.parse(typed.stdout).output, { result: 8 })

    const accepted = await service.post('/v1/calls', { ...add, waitMs: 0 })
    assert.equal(accepted.status, 202)
    const events = await (await service.ask(`/v1/calls/${accepted.value.callId}/events`)).text()
    assert.match(events, /event: done\n/)
    assert.deepEqual((await service.get('/healthz')).value, { alive: true })
    assert.deepEqual((await service.get('/readyz')).value, { ready: true })
    assert.match(await (await fetch(`${url}/metrics`)).text(), /^tool_executor_tasks_total\{/m)

    assert.equal(await service.stop(), 0)
    assert.ok(!existsSync(join(folder, '.gantry', 'service.json')))
    cpSync(join(folder, '.gantry', 'db'), database, { recursive: true })
  })

  test('every error response has the same shape', async (t) => {
    const service = startServe(t, serviceFolder(t, database))
    const refusal = ({ status, value: { error } }: Awaited<ReturnType<ServeProcess['get']>>): unknown[] => {
      assert.deepEqual(Object.keys(error), ['code', 'message', 'stage', 'retryable', 'effect', 'details'])
      return [status, error.code]
    }
    const stranger = await service.ask('/v1/calls', { headers: { authorization: 'Bearer gk_wrong' } })
    const answer = { status: stranger.status, value: await stranger.json() }
    assert.deepEqual(refusal(answer), [401, 'UNAUTHENTICATED'])
    assert.deepEqual(refusal(await service.get('/v1/calls/0197f0c2-none')), [404, 'NOT_FOUND'])
    const large = { tool: 'demo:echo', args: { value: 'x'.repeat(1_048_576) } }
    assert.deepEqual(refusal(await service.post('/v1/calls', large)), [413, 'PAYLOAD_TOO_LARGE'])
    assert.deepEqual(refusal(await service.post('/v1/calls', '{"tool":')), [400, 'PAYLOAD_INVALID'])
    const deep = `{"tool":"demo:echo","args":{"value":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`
    assert.deepEqual(refusal(await service.post('/v1/calls', deep)), [400, 'PAYLOAD_INVALID'])
    assert.equal((await service.post('/v1/calls', { ...add, idempotencyKey: 'k' })).status, 200)
    const other = { ...add, args: { a: 1, b: 1 }, idempotencyKey: 'k' }
    assert.deepEqual(refusal(await service.post('/v1/calls', other)), [409, 'IDEMPOTENCY_CONFLICT'])
    assert.deepEqual(refusal(await service.post('/v1/calls', { tool: 'demo:nothing' })), [404, 'TOOL_NOT_FOUND'])
    const wrong = { tool: 'demo:add', args: { a: '5' } }
    assert.deepEqual(refusal(await service.post('/v1/calls', wrong)), [400, 'INPUT_INVALID'])
  })

  test('commands use the service of their folder, and SIGINT cancels the call in the service', async (t) => {
    const folder = serviceFolder(t, database)
    const service = startServe(t, folder)
    const url = await service.ready
    const run = await command(folder, ['run', 'demo:add', '{"a":5,"b":3}', '--json', '--verbose'])
    assert.equal(run.err, `Asking the service at ${url}.\n`)
    const { callId, output } = JSON.parse(run.out)
    assert.deepEqual(output, { result: 8 })
    assert.match((await command(folder, ['calls'])).out, new RegExp(callId))
    assert.equal(JSON.parse((await command(folder, ['call', callId, '--json'])).out).result.callId, callId)
    const streamed = await command(folder, ['stream', 'demo:countdown', '{"from":2,"delayMs":1}'])
    assert.equal(streamed.out, '2\n1\n{\n  "counted": 2\n}\n')
    const chain = await command(folder, ['chain', '[{"tool":"demo:add","args":{"a":1,"b":2}}]', '--json'])
    assert.deepEqual(JSON.parse(chain.out).output, { result: 3 })
    const { items } = JSON.parse((await command(folder, ['workers', '--json'])).out)
    assert.ok(
      items.some(({ pid, state }: { pid: number; state: string }) => pid === service.child.pid && state === 'ready'),
    )

    const stopped = await gantry(['run', 'demo:sleep', '{"ms":60000}', '--json'], {
      folder,
      cache: join(folder, '.cache'),
      async onStart(child) {
        await until(t, async () => (await service.get('/v1/calls?state=running')).value.items.length > 0)
        child.kill('SIGINT')
      },
    })
    const result = JSON.parse(stopped.out)
    assert.deepEqual([stopped.code, result.status], [6, 'cancelled'])
    assert.equal((await service.get(`/v1/calls/${result.callId}`)).value.state, 'cancelled')
  })

  test('a second service on the same folder exits with an error that names the first, which continues', async (t) => {
    const folder = serviceFolder(t, database)
    const first = startServe(t, folder)
    await first.ready
    const second = startServe(t, folder)
    assert.equal((await second.ended).code, 5)
    assert.equal(second.printed.out, '')
    const refusal = new RegExp(`SERVICE_UNAVAILABLE: .*\\.gantry is in use by process ${first.child.pid} on `)
    assert.match(second.printed.err, refusal)
    assert.doesNotMatch(second.printed.err, /Start it with/)
    assert.equal((await first.post('/v1/calls', add)).status, 200)
  })

  test('a port in use is an error that names it, and the folder is released', async (t) => {
    const folder = serviceFolder(t, database)
    const taken = createServer().listen(0, '127.0.0.1')
    t.after(() => taken.close())
    await new Promise((resolve) => taken.once('listening', resolve))
    const { port } = taken.address() as AddressInfo
    const { ended, printed } = startServe(t, folder, { args: ['--port', String(port)] })
    assert.equal((await ended).code, 2)
    assert.equal(printed.out, '')
    assert.match(
      printed.err,
      new RegExp(`^CONFIG_INVALID: The address 127.0.0.1:${port} is in use by another process`, 'm'),
    )
    assert.ok(!existsSync(join(folder, '.gantry', 'service.json')))
    const again = startServe(t, folder)
    await again.ready
    assert.equal(await again.stop(), 0)
  })

  test('on SIGTERM a running call completes, and its result is there after a restart', async (t) => {
    const folder = serviceFolder(t, database)
    const service = startServe(t, folder)
    const countdown = { tool: 'demo:countdown', args: { from: 20, delayMs: 50 }, waitMs: 0 }
    const { callId } = (await service.post('/v1/calls', countdown)).value
    await until(t, async () => (await service.get(`/v1/calls/${callId}`)).value.state === 'running')
    assert.equal(await service.stop(), 0)
    const again = startServe(t, folder)
    const { state, result } = (await again.get(`/v1/calls/${callId}?waitMs=20000`)).value
    assert.deepEqual([state, result.output], ['ok', { counted: 20 }])
    assert.equal(await again.stop('SIGINT'), 0)
  })

  test('a call interrupted by kill -9 runs after the restart, and a following client sees its outcome', async (t) => {
    const folder = serviceFolder(t, database)
    const service = startServe(t, folder)
    const countdown = { tool: 'demo:countdown', args: { from: 1_000, delayMs: 50 }, waitMs: 0, idempotencyKey: 'k' }
    const { callId } = (await service.post('/v1/calls', countdown)).value
    const seen = Promise.withResolvers<void>()
    const followed = gantry(['call', callId, '--follow', '--json'], {
      folder,
      cache: join(folder, '.cache'),
      onStart: (child) => child.stdout?.once('data', () => seen.resolve()),
    })
    await seen.promise
    service.child.kill('SIGKILL')
    await service.ended
    const again = startServe(t, folder, { args: ['--port', new URL(await service.ready).port] })
    await until(t, async () => (await again.get(`/v1/calls/${callId}`)).value.state === 'running')
    assert.equal((await again.post('/v1/calls', countdown)).value.callId, callId)
    assert.equal((await again.post(`/v1/calls/${callId}/cancel`, {})).status, 200)
    assert.equal((await again.get(`/v1/calls/${callId}?waitMs=20000`)).value.state, 'cancelled')
    const { code, out } = await followed
    const events = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    const ids = events.map(({ id }) => id)
    assert.deepEqual(
      ids,
      [...new Set(ids)].sort((a, b) => a - b),
      'each came once and in order',
    )
    assert.deepEqual([code, events.at(-1).result.status], [6, 'cancelled'])
  })

  test('SIGHUP reloads the configuration, and an invalid one is not used', async (t) => {
    const folder = serviceFolder(t, database)
    const config = (word: string): string => `import { defineTool } from '@gantry/core'
export default { tools: [defineTool({ namespace: 'my', name: 'word', description: 'Says a word.', effect: 'read',
  inputSchema: { type: 'object' }, run: () => '${word}' })] }`
    const file = join(folder, 'gantry.config.mjs')
    writeFileSync(file, config('one'))
    const service = startServe(t, folder)
    const word = async (): Promise<unknown> => (await service.post('/v1/calls', { tool: 'my:word' })).value.output
    assert.equal(await word(), 'one')
    writeFileSync(file, 'export default { limit: 1 }')
    service.child.kill('SIGHUP')
    await logged(t, service, /configuration not used/)
    assert.equal(await word(), 'one')
    writeFileSync(file, config('two'))
    service.child.kill('SIGHUP')
    await logged(t, service, /configuration reloaded/)
    assert.equal(await word(), 'two')
    assert.equal(await service.stop(), 0)
  })

  test('an uncaught exception of a tool ends the service, with the reason in the log', async (t) => {
    const folder = serviceFolder(t, database)
    writeFileSync(
      join(folder, 'gantry.config.mjs'),
      `import { defineTool } from '@gantry/core'
export default { tools: [defineTool({ namespace: 'my', name: 'loose', description: 'Leaves a failure.', effect: 'once',
  inputSchema: { type: 'object' }, run: () => { setTimeout(() => { throw new Error('left behind') }, 1); return 'done' } })] }`,
    )
    const service = startServe(t, folder)
    await service.post('/v1/calls', { tool: 'my:loose' }).catch(() => undefined)
    assert.equal((await service.ended).code, 1)
    const last = JSON.parse(service.printed.err.trimEnd().split('\n').at(-1) ?? '{}')
    assert.deepEqual([last.level, last.error], ['fatal', 'Error: left behind'])
  })

  test('options override the environment, and a worker process listens on no port', async (t) => {
    const { url } = await postgresDatabase(t)
    const folder = serviceFolder(t)
    const args = ['--role', 'worker', '--role', 'relay', '--data', '.gantry']
    const environment = { GANTRY_ROLES: 'api', GANTRY_DATA: 'other' }
    const alone = startServe(t, folder, { args, environment })
    await assert.rejects(alone.ready, /the role api is missing; set DATABASE_URL/)
    const service = startServe(t, folder, { args, environment: { ...environment, DATABASE_URL: url } })
    assert.equal(await service.ready, '')
    assert.equal(service.printed.out, 'ready\n')
    assert.ok(!existsSync(join(folder, 'other')) && !existsSync(join(folder, '.gantry', 'key')))
    assert.equal(await service.stop(), 0)
  })

  test('an API process and worker processes share a PostgreSQL database', async (t) => {
    const { url } = await postgresDatabase(t)
    const folder = serviceFolder(t)
    const environment = { DATABASE_URL: url }
    const api = startServe(t, folder, { args: ['--role', 'api'], environment })
    await api.ready
    const { callId } = (await api.post('/v1/calls', { ...add, waitMs: 0 })).value
    assert.equal((await api.get(`/v1/calls/${callId}`)).value.state, 'queued')
    const workers = [1, 2].map(() =>
      startServe(t, folder, { args: ['--role', 'worker', '--role', 'relay'], environment }),
    )
    await Promise.all(workers.map(({ ready }) => ready))
    const { state, result } = (await api.get(`/v1/calls/${callId}?waitMs=20000`)).value
    assert.deepEqual([state, result.output], ['ok', { result: 8 }])
    assert.ok(!existsSync(join(folder, '.gantry', 'db')))
    const { items } = (await api.get('/v1/workers')).value
    assert.deepEqual(items.map(({ roles }: { roles: string[] }) => roles.join()).sort(), [
      'api',
      'worker,relay',
      'worker,relay',
    ])
    for (const service of [...workers, api]) assert.equal(await service.stop(), 0)
  })
})
