import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import type { JsonObject, ToolError } from '@gantry/contract'
import { engineFolder } from '../../../scripts/engines/folder.ts'
import { checkConfig } from '../src/config/check-config.ts'
import { loadConfig } from '../src/config/load.ts'
import { serve } from '../src/serve/serve.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteFolder } from './databases.fixture.ts'
import type { Answer } from './serve.fixture.ts'

/** A web server that records the credential of each request, and delays requests of `/held` until `release`. */
async function openFar(t: TestContext) {
  const seen: (string | undefined)[] = []
  const gate = Promise.withResolvers<void>()
  const server = createServer(async (request, response) => {
    seen.push(request.headers.authorization)
    if (request.url === '/held') await gate.promise
    response.setHeader('content-type', 'application/json').end('{"far":true}')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, release: gate.resolve }
}

/** `gantry serve` in this process, with a configuration file that the test writes. */
async function openServe(t: TestContext, config: JsonObject) {
  const folder = engineFolder('reload')
  const file = join(folder, 'gantry.config.json')
  const data = join(folder, '.gantry')
  mkdirSync(data)
  renameSync(join(await pgliteFolder(t), 'db'), join(data, 'db'))
  for (const [name, text] of [
    ['one', 'first-secret-value'],
    ['two', 'second-secret-value'],
  ] as const) {
    writeFileSync(join(folder, name), text)
  }
  const log: string[] = []
  const stop = new AbortController()
  const started = Promise.withResolvers<string>()
  const environment = { GANTRY_DATA: data, GANTRY_PORT: '0' }
  writeFileSync(file, JSON.stringify(config))
  const ended = serve({
    load: () => loadConfig({ folder, environment, signal: stop.signal, fresh: true }),
    say: () => undefined,
    log: { write: (line) => void log.push(line) },
    ready: (url) => started.resolve(url ?? ''),
    signal: stop.signal,
  })
  ended.catch(started.reject)
  t.after(async () => {
    stop.abort()
    await ended
    rmSync(folder, { recursive: true, force: true })
  })
  const url = await started.promise
  const headers = { authorization: `Bearer ${readFileSync(join(data, 'key'), 'utf8').trim()}` }
  const ask = async (path: string, body?: unknown): Promise<Answer> => {
    const post = { method: 'POST', body: typeof body === 'string' ? body : JSON.stringify(body) }
    const type = { 'content-type': 'application/json' }
    const response = await fetch(`${url}${path}`, {
      headers: { ...headers, ...type },
      ...(body === undefined ? {} : post),
    })
    const text = await response.text()
    return { status: response.status, value: text.startsWith('{') ? JSON.parse(text) : text }
  }
  const logged = (what: RegExp, from: number): Promise<string> =>
    eventually(async () => log.slice(from).find((line) => what.test(line)), `${what} in the log`)
  const put = (next: string | JsonObject): void => {
    writeFileSync(file, typeof next === 'string' ? next : JSON.stringify(next))
    process.emit('SIGHUP')
  }
  return {
    ask,
    logged,
    log,
    put,
    file,
    /** Writes the file, as text or as JSON, triggers a reload, and waits for a log line. */
    write(next: string | JsonObject, what = /configuration reloaded/): Promise<string> {
      const from = log.length
      put(next)
      return logged(what, from)
    },
    async outcome(tool: string): Promise<unknown> {
      const { value } = await ask('/v1/calls', { tool, args: {}, waitMs: 10_000 })
      return value.error?.code ?? value.output
    },
  }
}

test('a reload applies each part of the configuration without a restart', async (t) => {
  const far = await openFar(t)
  const tool = (name: string, path = '/get'): JsonObject => ({
    namespace: 'far',
    name,
    description: 'Gets.',
    effect: 'read',
    inputSchema: { type: 'object' },
    backends: [{ kind: 'http', name: 'far', path }],
  })
  const base = {
    tools: [tool('get'), tool('held', '/held')],
    backends: [{ kind: 'http', name: 'far', baseUrl: far.origin, auth: { type: 'bearer', token: 'secret:TOKEN' } }],
    secrets: { TOKEN: { file: 'one' } },
    egress: { allow: [{ origin: far.origin, private: true }] },
    service: { logLevel: 'debug' },
  }
  const site = await openServe(t, base)
  assert.deepEqual(await site.outcome('far:get'), { far: true })
  assert.equal(far.seen.at(-1), 'Bearer first-secret-value')

  await t.test('secrets', async () => {
    await site.write({ ...base, secrets: { TOKEN: { file: 'two' } } })
    await site.outcome('far:get')
    assert.equal(far.seen.at(-1), 'Bearer second-secret-value')
    assert.ok(!site.log.join('').includes('secret-value'))
  })

  await t.test('tools', async () => {
    assert.equal(await site.outcome('far:more'), 'TOOL_NOT_FOUND')
    await site.write({ ...base, tools: [...base.tools, tool('more')] })
    assert.deepEqual(await site.outcome('far:more'), { far: true })
    await site.write({ ...base, tools: [tool('held', '/held')] })
    assert.equal(await site.outcome('far:get'), 'TOOL_NOT_FOUND')
  })

  await t.test('egress', async () => {
    await site.write({ ...base, egress: { allow: ['https://example.com'] } })
    assert.equal(await site.outcome('far:get'), 'EGRESS_DENIED')
    await site.write(base)
    assert.deepEqual(await site.outcome('far:get'), { far: true })
  })

  await t.test('limits of calls and of the service', async () => {
    const large = { tool: 'far:get', args: { text: 'x'.repeat(5_000) } }
    assert.equal((await site.ask('/v1/calls', large)).status, 200)
    await site.write({ ...base, service: { ...base.service, bodyBytes: 1_000 } })
    assert.equal((await site.ask('/v1/calls', large)).value.error.code, 'PAYLOAD_TOO_LARGE')
    await site.write({ ...base, limits: { argsBytes: 1_000 } })
    assert.equal((await site.ask('/v1/calls', large)).value.error.code, 'INPUT_INVALID')
    site.put({ ...base, service: { logLevel: 'error' } })
    await eventually(async () => {
      const lines = site.log.length
      await site.outcome('far:get')
      return site.log.length === lines ? true : undefined
    }, 'silence')
    await site.write(base)
  })

  await t.test(
    'a new policy applies to new calls, and a running chain keeps the policy that it began with',
    async () => {
      const steps = [{ tool: 'far:held' }, { tool: 'far:get' }]
      const before = far.seen.length
      const { value } = await site.ask('/v1/chains', { steps, waitMs: 0 })
      await eventually(async () => (far.seen.length > before ? true : undefined), 'the first step')
      await site.write({ ...base, policy: { rules: [{ deny: 'far:get', reason: 'Closed.' }], default: 'allow' } })
      assert.equal(await site.outcome('far:get'), 'DENIED')
      far.release()
      const chain = await site.ask(`/v1/calls/${value.callId}?waitMs=10000`)
      assert.deepEqual([chain.value.state, chain.value.result.output], ['ok', { far: true }])
      await site.write(base)
    },
  )

  await t.test(
    'an invalid configuration is not used, and the log, /readyz and a metric report it until it is fixed',
    async () => {
      const okay = async (): Promise<boolean> => /^gantry_config_ok 1$/m.test((await site.ask('/metrics')).value)
      assert.equal(await okay(), true)
      const lost = { ...tool('lost'), backends: [{ kind: 'http', name: 'lost', path: '/' }] }
      const wrong: readonly (readonly [string | JsonObject, RegExp])[] = [
        [{ ...base, limit: 1 }, /"path":"\/limit"/],
        ['{ "tools": [', /line 1/],
        [{ ...base, egress: { allow: ['not an origin'] } }, /not used/],
        [
          { ...base, tools: [tool('get'), lost] },
          /"path":"\/tools\/1\/backends\/0","message":"names the unknown backend http:lost/,
        ],
        [
          { ...base, backends: [{ ...base.backends[0], tools: [tool('unversioned')] }] },
          /\/version must be a semantic/,
        ],
        [{ ...base, secretStore: { keyFile: 'no-such-key' } }, /"path":"\/secretStore"/],
      ]
      for (const [config, what] of wrong) {
        await site.write(config, /configuration not used/)
        await site.logged(what, 0)
        assert.equal(await okay(), false)
        const { status, value } = await site.ask('/readyz')
        assert.deepEqual([status, value.ready, value.notes.length], [200, true, 1])
        assert.deepEqual(await site.outcome('far:get'), { far: true })
      }
      await site.write(base)
      assert.equal(await okay(), true)
      assert.deepEqual((await site.ask('/readyz')).value, { ready: true })
    },
  )

  await t.test('a file that is removed or replaced does not remove the configuration in use', async () => {
    await site.write({ ...base, policy: { rules: [{ deny: 'far:get', reason: 'Closed.' }], default: 'allow' } })
    for (const name of ['gone.json', 'gantry.config.mjs']) {
      const moved = join(dirname(site.file), name)
      renameSync(site.file, moved)
      if (name.endsWith('.mjs')) writeFileSync(moved, 'export default {}')
      const from = site.log.length
      process.emit('SIGHUP')
      await site.logged(/no longer exists/, from)
      assert.equal(await site.outcome('far:get'), 'DENIED')
      rmSync(moved)
      await site.write({ ...base, policy: { rules: [{ deny: 'far:get', reason: 'Closed.' }], default: 'allow' } })
    }
    await site.write(base)
  })

  await t.test('settings that need a restart are logged, and the rest of the same file is applied', async () => {
    const next = { ...base, service: { ...base.service, slots: 3, port: 1 }, tools: [...base.tools, tool('late')] }
    const line = await site.write(next, /needs a restart/)
    assert.deepEqual(JSON.parse(line).keys, ['service.slots'])
    assert.deepEqual(await site.outcome('far:late'), { far: true })
  })
})

test('gantry serve rejects an invalid configuration with the same error as gantry config check', async (t) => {
  const unversioned = {
    namespace: 'far',
    name: 'get',
    description: 'Gets.',
    effect: 'read',
    inputSchema: { type: 'object' },
    backends: [{ kind: 'http', path: '/' }],
  }
  const config = { backends: [{ kind: 'http', name: 'far', baseUrl: 'http://127.0.0.1:9', tools: [unversioned] }] }
  const folder = engineFolder('reload')
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  writeFileSync(join(folder, 'gantry.config.json'), JSON.stringify(config))
  const stop = new AbortController()
  const { signal } = stop
  const environment = { GANTRY_DATA: await pgliteFolder(t), GANTRY_PORT: '0' }
  const said = async (asked: Promise<unknown>): Promise<unknown> => {
    const { code, message, details } = ((await asked.catch((error: unknown) => error)) ?? {}) as Partial<ToolError>
    return { code, message, issues: details?.issues }
  }
  const checked = await said(checkConfig({ folder, environment, signal }))
  const started = await said(
    serve({
      load: () => loadConfig({ folder, environment, signal }),
      say: () => undefined,
      log: { write: () => undefined },
      ready: () => stop.abort(),
      signal,
    }),
  )
  assert.match(JSON.stringify(started), /CONFIG_INVALID.*version must be a semantic version/)
  assert.deepEqual(started, checked)
})
