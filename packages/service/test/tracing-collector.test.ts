import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { hasProgram } from '../../../scripts/engines/packages.ts'
import { eventually } from './broker-site.fixture.ts'
import { startCollector } from './collector.fixture.ts'
import { canary, place, startTraced } from './tracing.fixture.ts'

/**
 * The environment for a process that records each OpenTelemetry module it loads, and the recorded list. `api` is left
 * out: it does nothing by itself, and the metrics library depends on it.
 */
function watchLoading(t: TestContext): { readonly environment: NodeJS.ProcessEnv; loaded(): string } {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-loading-'))
  t.after(() => rmSync(folder, { recursive: true, force: true }))
  const [hook, list] = [join(folder, 'hook.mjs'), join(folder, 'list')]
  writeFileSync(list, '')
  writeFileSync(
    hook,
    `import { appendFileSync } from 'node:fs'
    import { registerHooks } from 'node:module'
    const note = (url) => /@opentelemetry\\/(?!api\\/)/.test(url) && appendFileSync(${JSON.stringify(list)}, url + '\\n')
    registerHooks({ load: (url, context, next) => (note(url), next(url, context)) })`,
  )
  return {
    environment: { NODE_OPTIONS: `--import=${pathToFileURL(hook).href}` },
    loaded: () => readFileSync(list, 'utf8'),
  }
}

/** A port that was free when asked. */
async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

test('without a collector no OpenTelemetry module is loaded, and the trace context is still propagated', async (t) => {
  const { environment, loaded } = watchLoading(t)
  const service = await startTraced(t, undefined, environment)
  const { traceparent } = place()
  const { output } = await service.call({ tool: 'test:boxed', args: {} }, { traceparent })
  assert.equal(output.place, traceparent)
  assert.equal(await service.stop(), 0)
  assert.equal(loaded(), '')
})

test('a collector that never responds does not keep the service from stopping; the environment can configure it', async (t) => {
  const collector = await startCollector(t)
  collector.mode = 'silent'
  const { environment, loaded } = watchLoading(t)
  const service = await startTraced(t, undefined, { ...environment, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url })
  assert.equal((await service.call({ tool: 'test:echo', args: {} })).status, 'ok')
  assert.equal(await service.stop(), 0)
  assert.ok(collector.headers.length > 0, 'the last batch was sent when it stopped')
  assert.match(loaded(), /opentelemetry\/sdk-trace/, 'what is loaded is seen')
})

test('the caller’s sampling decision overrides the rate, and collector headers may be secrets', async (t) => {
  const collector = await startCollector(t)
  const headers = { 'x-key': 'secret:TOKEN', 'x-plain': 'plain' }
  const service = await startTraced(t, { endpoint: `${collector.url}/v1/traces`, sample: 0, headers })
  const [kept, left] = [place(true), place(false)]
  const output = async (given: { readonly [name: string]: string }) =>
    (await service.call({ tool: 'test:boxed', args: {} }, given)).output
  await output({})
  const unkept = await output({ traceparent: left.traceparent })
  await output({ traceparent: kept.traceparent })
  await collector.trace(kept.traceId, ['gantry.submit', 'gantry.task', 'gantry.call', 'sandbox'])
  assert.equal(await service.stop(), 0)
  assert.deepEqual([...new Set(collector.spans.map(({ traceId }) => traceId))], [kept.traceId])
  assert.match(
    unkept.place,
    new RegExp(`^00-${left.traceId}-[0-9a-f]{16}-00$`),
    'the program gets the unsampled context',
  )
  assert.deepEqual([collector.headers[0]?.['x-key'], collector.headers[0]?.['x-plain']], [canary, 'plain'])
  assert.doesNotMatch(collector.bodies.join() + service.printed.err + service.printed.out, new RegExp(canary))
})

test('a collector that does not respond or rejects spans fails no call and loses no outcome', async (t) => {
  const collector = await startCollector(t)
  collector.mode = 'silent'
  const port = await freePort()
  const service = await startTraced(t, { endpoint: collector.url }, { CIRCUIT_BREAKER_METRICS_PORT: String(port) })
  const scrape = async (): Promise<string> => (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const run = async (): Promise<string> => (await service.call({ tool: 'test:echo', args: {} })).status
  const statuses = await Promise.all(Array.from({ length: 50 }, run))
  await eventually(async () => (collector.headers.length > 0 ? true : undefined), 'a batch without an answer')
  statuses.push(...(await Promise.all(Array.from({ length: 50 }, run))))
  assert.deepEqual(new Set(statuses), new Set(['ok']))
  collector.mode = 'refuses'
  const lost = async (): Promise<number> =>
    Number(/^gantry_spans_total\{outcome="lost"\} (\d+)$/m.exec(await scrape())?.[1] ?? 0)
  await eventually(async () => ((await lost()) > 0 ? true : undefined), 'spans that are lost')
  assert.match(await scrape(), /^gantry_waiting\{what="unsealed"\} \d+$/m)
  assert.match(await scrape(), /^gantry_database_connections\{state="open"\} 1$/m)
  if (hasProgram('promtool')) {
    const linted = spawnSync('promtool', ['check', 'metrics'], { input: await scrape(), encoding: 'utf8' })
    assert.deepEqual([linted.status, linted.stderr], [0, ''], 'the metrics pass promtool')
  }
  collector.mode = 'takes'
  const { traceId, traceparent } = place()
  await service.call({ tool: 'test:echo', args: {} }, { traceparent })
  await collector.trace(traceId, ['gantry.submit', 'gantry.task', 'gantry.call'])
  const { value } = await service.get('/v1/calls?limit=100')
  assert.equal(value.items.length, 100)
  assert.ok(value.items.every((item: { state: string }) => item.state === 'ok'))
  assert.equal(await service.stop(), 0)
  assert.match(service.printed.err, /traces are lost/)
  assert.doesNotMatch(service.printed.err, /canary in an answer/, 'the response of the collector is not logged')
})
