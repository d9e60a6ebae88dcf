import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { serviceFolder, startServe } from './serve.fixture.ts'
import { type Ended, gantry } from './spawn.fixture.ts'

/** Runs a command in the folder of a service. */
function command(folder: string, line: readonly string[]): Promise<Ended> {
  return gantry(line, { folder, cache: join(folder, '.cache') })
}

const add = { tool: 'demo:add', args: { a: 5, b: 3 } }

describe('gantry serve', { concurrency: 2 }, () => {
  test('a first start makes a key, says where it listens, and takes calls', async (t) => {
    const folder = serviceFolder(t)
    const service = startServe(t, folder)
    const url = await service.ready
    assert.equal(service.printed.out, `listening on ${url}\nready\n`)
    assert.equal(statSync(join(folder, '.gantry', 'key')).mode & 0o777, 0o600)
    const key = readFileSync(join(folder, '.gantry', 'key'), 'utf8').trim()
    for (const line of service.printed.err.trimEnd().split('\n')) assert.ok(typeof JSON.parse(line).msg === 'string')
    assert.ok(!service.printed.err.includes(key), 'the key itself is told to nobody')
    const answer = await service.ask('/v1/calls', { method: 'POST', body: JSON.stringify(add) })
    assert.deepEqual([answer.status, ((await answer.json()) as { output: unknown }).output], [200, { result: 8 }])

    // The line that it advises, as a person would type it.
    const { curl } = JSON.parse(service.printed.err.split('\n').find((line) => line.includes('"curl"')) ?? '{}')
    const typed = spawnSync('bash', ['-c', curl], { encoding: 'utf8' })
    if (typed.error === undefined && typed.status !== 127)
      assert.deepEqual(JSON.parse(typed.stdout).output, { result: 8 })

    const accepted = await service.ask('/v1/calls', { method: 'POST', body: JSON.stringify({ ...add, waitMs: 0 }) })
    assert.equal(accepted.status, 202)
    const { callId } = (await accepted.json()) as { callId: string }
    const events = await (await service.ask(`/v1/calls/${callId}/events`)).text()
    assert.match(events, /event: done\n/)
    assert.equal((await fetch(`${url}/healthz`)).status, 200)
    assert.equal((await fetch(`${url}/readyz`)).status, 200)
    assert.match(await (await fetch(`${url}/metrics`)).text(), /^tool_executor_tasks_total\{/m)

    assert.equal(await service.stop(), 0)
    assert.ok(!existsSync(join(folder, '.gantry', 'service.json')))
  })

  test('what it refuses, it refuses in one shape', async (t) => {
    const folder = serviceFolder(t)
    const service = startServe(t, folder)
    const post = (body: string, headers: { readonly [name: string]: string } = {}): Promise<Response> =>
      service.ask('/v1/calls', { method: 'POST', body, headers })
    const refusal = async (response: Promise<Response>): Promise<unknown[]> => {
      const { status } = await response
      const { error } = (await (await response).json()) as { error: { code: string } }
      assert.deepEqual(Object.keys(error), ['code', 'message', 'stage', 'retryable', 'effect', 'details'])
      return [status, error.code]
    }
    assert.deepEqual(await refusal(post('{}', { authorization: 'Bearer gk_wrong' })), [401, 'UNAUTHENTICATED'])
    assert.deepEqual(await refusal(service.ask('/v1/calls/0197f0c2-none')), [404, 'NOT_FOUND'])
    const large = JSON.stringify({ tool: 'demo:echo', args: { value: 'x'.repeat(1_048_576) } })
    assert.deepEqual(await refusal(post(large)), [413, 'PAYLOAD_TOO_LARGE'])
    assert.deepEqual(await refusal(post('{"tool":')), [400, 'PAYLOAD_INVALID'])
    const deep = `{"tool":"demo:echo","args":{"value":${'['.repeat(100_000)}${']'.repeat(100_000)}}}`
    assert.deepEqual(await refusal(post(deep)), [400, 'PAYLOAD_INVALID'])
    assert.equal((await post(JSON.stringify({ ...add, idempotencyKey: 'k' }))).status, 200)
    const other = JSON.stringify({ ...add, args: { a: 1, b: 1 }, idempotencyKey: 'k' })
    assert.deepEqual(await refusal(post(other)), [409, 'IDEMPOTENCY_CONFLICT'])
    assert.deepEqual(await refusal(post('{"tool":"demo:nothing"}')), [404, 'TOOL_NOT_FOUND'])
    assert.deepEqual(await refusal(post('{"tool":"demo:add","args":{"a":"5"}}')), [400, 'INPUT_INVALID'])
  })

  test('commands ask the service that runs in their folder, and see its calls', async (t) => {
    const folder = serviceFolder(t)
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
    assert.deepEqual([items[0].pid, items[0].state], [service.child.pid, 'ready'])
  })

  test('an interrupt cancels the call at the service too', async (t) => {
    const folder = serviceFolder(t)
    const service = startServe(t, folder)
    await service.ready
    const line = ['run', 'demo:countdown', '{"from":1000,"delayMs":50}', '--json']
    const running = gantry(line, {
      folder,
      cache: join(folder, '.cache'),
      async onStart(child) {
        const held = async (): Promise<number> => {
          const page = (await (await service.ask('/v1/calls?state=running')).json()) as { items: unknown[] }
          return page.items.length
        }
        while ((await held()) === 0) await new Promise((resolve) => setTimeout(resolve, 20))
        child.kill('SIGINT')
      },
    })
    const { code, out } = await running
    assert.deepEqual([code, JSON.parse(out).status], [6, 'cancelled'])
    const kept = await (await service.ask(`/v1/calls/${JSON.parse(out).callId}`)).json()
    assert.equal((kept as { state: string }).state, 'cancelled')
  })

  test('a second service on the same folder is refused by name, and the first goes on', async (t) => {
    const folder = serviceFolder(t)
    const first = startServe(t, folder)
    await first.ready
    const second = startServe(t, folder)
    assert.equal((await second.ended).code, 5)
    assert.equal(second.printed.out, '')
    const refusal = new RegExp(`SERVICE_UNAVAILABLE: .*\\.gantry is in use by process ${first.child.pid} on `)
    assert.match(second.printed.err, refusal)
    assert.equal((await first.ask('/v1/calls', { method: 'POST', body: JSON.stringify(add) })).status, 200)
  })

  test('a port that is taken is named, and nothing is left behind', async (t) => {
    const folder = serviceFolder(t)
    const taken = createServer().listen(0, '127.0.0.1')
    t.after(() => taken.close())
    await new Promise((resolve) => taken.once('listening', resolve))
    const { port } = taken.address() as AddressInfo
    const { ended, printed } = startServe(t, folder, { args: ['--port', String(port)] })
    assert.equal((await ended).code, 2)
    assert.equal(printed.out, '')
    assert.match(
      printed.err,
      new RegExp(`CONFIG_INVALID: The address 127\\.0\\.0\\.1:${port} is taken by another process`),
    )
    assert.ok(!existsSync(join(folder, '.gantry', 'service.json')))
    assert.equal(await startedAndStopped(startServe(t, folder)), 0)
  })

  test('SIGTERM lets a running call end and takes no more; a restart has it all', async (t) => {
    const folder = serviceFolder(t)
    const service = startServe(t, folder)
    const body = JSON.stringify({ tool: 'demo:countdown', args: { from: 20, delayMs: 50 }, waitMs: 0 })
    const { callId } = (await (await service.ask('/v1/calls', { method: 'POST', body })).json()) as { callId: string }
    const reader = (await service.ask(`/v1/calls/${callId}/events`)).body?.getReader()
    await reader?.read()
    const stopped = service.stop()
    assert.equal(await stopped, 0)
    await reader?.cancel().catch(() => undefined)
    const again = startServe(t, folder)
    const view = (await (await again.ask(`/v1/calls/${callId}?waitMs=20000`)).json()) as {
      state: string
      result: { output: unknown }
    }
    assert.deepEqual([view.state, view.result.output], ['ok', { counted: 20 }])
    assert.equal(await again.stop('SIGINT'), 0)
  })

  test('a call that kill -9 took is reported after the restart, and the folder is open again', async (t) => {
    const folder = serviceFolder(t)
    const service = startServe(t, folder)
    const body = JSON.stringify({ tool: 'demo:sleep', args: { ms: 60_000 }, waitMs: 0, idempotencyKey: 'k' })
    const { callId } = (await (await service.ask('/v1/calls', { method: 'POST', body })).json()) as { callId: string }
    const running = async (): Promise<boolean> =>
      ((await (await service.ask(`/v1/calls/${callId}`)).json()) as { state: string }).state === 'running'
    while (!(await running())) await new Promise((resolve) => setTimeout(resolve, 20))
    service.child.kill('SIGKILL')
    await service.ended
    const again = startServe(t, folder)
    const view = (await (await again.ask(`/v1/calls/${callId}`)).json()) as { state: string; attempts: number }
    assert.ok(['queued', 'running'].includes(view.state), view.state)
    const found = (await (await again.ask('/v1/calls', { method: 'POST', body })).json()) as { callId: string }
    assert.equal(found.callId, callId)
    const cancelled = await again.ask(`/v1/calls/${callId}/cancel`, { method: 'POST' })
    assert.equal(cancelled.status, 200)
    const ended = (await (await again.ask(`/v1/calls/${callId}?waitMs=20000`)).json()) as { state: string }
    assert.equal(ended.state, 'cancelled')
  })

  test('a configuration is read again when it changes, a wrong one is not used', async (t) => {
    const folder = serviceFolder(t)
    const config = (word: string): string => `import { defineTool } from '@gantry/core'
export default { tools: [defineTool({ namespace: 'my', name: 'word', description: 'Says a word.', effect: 'read',
  inputSchema: { type: 'object' }, run: () => '${word}' })] }`
    const file = join(folder, 'gantry.config.mjs')
    writeFileSync(file, config('one'))
    const service = startServe(t, folder)
    const say = async (): Promise<unknown> => {
      const body = JSON.stringify({ tool: 'my:word' })
      return ((await (await service.ask('/v1/calls', { method: 'POST', body })).json()) as { output: unknown }).output
    }
    assert.equal(await say(), 'one')
    writeFileSync(file, 'export default { limit: 1 }')
    service.child.kill('SIGHUP')
    await told(service, /configuration not used/)
    assert.equal(await say(), 'one')
    writeFileSync(file, config('two'))
    service.child.kill('SIGHUP')
    await told(service, /configuration read again/)
    assert.equal(await say(), 'two')
    assert.equal(await service.stop(), 0)
  })

  test('a stray failure of a tool ends the service, with the reason in the log', async (t) => {
    const folder = serviceFolder(t)
    writeFileSync(
      join(folder, 'gantry.config.mjs'),
      `import { defineTool } from '@gantry/core'
export default { tools: [defineTool({ namespace: 'my', name: 'stray', description: 'Leaves a failure behind.', effect: 'once',
  inputSchema: { type: 'object' }, run: () => { setTimeout(() => { throw new Error('left behind') }, 1); return 'done' } })] }`,
    )
    const service = startServe(t, folder)
    await service.ask('/v1/calls', { method: 'POST', body: '{"tool":"my:stray"}' }).catch(() => undefined)
    assert.equal((await service.ended).code, 1)
    const last = JSON.parse(service.printed.err.trimEnd().split('\n').at(-1) ?? '{}')
    assert.deepEqual([last.level, last.error], ['fatal', 'Error: left behind'])
  })

  test('options go over the environment, and a process that only works listens nowhere', async (t) => {
    const folder = serviceFolder(t)
    const args = ['--role', 'worker', '--role', 'relay', '--data', 'kept']
    const service = startServe(t, folder, { args, environment: { GANTRY_ROLES: 'api', GANTRY_DATA: 'other' } })
    assert.equal(await service.ready, '')
    assert.equal(service.printed.out, 'ready\n')
    assert.ok(existsSync(join(folder, 'kept', 'db')) && !existsSync(join(folder, 'kept', 'key')))
    assert.equal(await service.stop(), 0)
  })
})

async function startedAndStopped(service: ReturnType<typeof startServe>): Promise<number | null> {
  await service.ready
  return service.stop()
}

async function told(service: ReturnType<typeof startServe>, what: RegExp): Promise<void> {
  while (!what.test(service.printed.err)) await new Promise((resolve) => setTimeout(resolve, 20))
}
