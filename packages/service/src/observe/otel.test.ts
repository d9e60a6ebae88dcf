import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { test } from 'node:test'
import { makeAuthority } from '../../../../scripts/engines/certificates.ts'
import { eventually } from '../../test/broker-site.fixture.ts'
import { startCollector } from '../../test/collector.fixture.ts'
import { createBus } from './bus.ts'
import { openTracing, type TracingOptions } from './tracing.ts'

const traceId = '0af7651916cd43dd8448eb211c80319c'
const spanId = 'b7ad6b7169203331'

async function open(given: Partial<TracingOptions> & { readonly endpoint: string }) {
  const bus = createBus()
  const counts = { sent: 0, lost: 0, reasons: new Set<string>() }
  bus.on('spans:sent', ({ spans }) => {
    counts.sent += spans
  })
  bus.on('spans:lost', ({ spans, reason }) => {
    counts.lost += spans
    counts.reasons.add(reason)
  })
  const tracing = await openTracing({ headers: {}, sample: 1, worker: 'w-1', bus, ...given })
  return { ...tracing, counts }
}

test('spans arrive with their times, kinds, attributes and error codes, under the caller’s parent span', async (t) => {
  const collector = await startCollector(t)
  const { tracer, close, counts } = await open({ endpoint: `${collector.url}/` })
  const above = tracer.start('above', `00-${traceId}-${spanId}-01`, { kind: 'server', startedAt: 1_000.5 })
  const below = above.child('below', { kind: 'client', facts: { word: 'x'.repeat(1_000), count: 3, right: true } })
  assert.match(below.traceparent, new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`))
  below.note({ more: 'later' })
  below.end('TIMEOUT')
  below.note({ late: true })
  above.end(undefined, 2_000.25)
  tracer.start('turned', undefined, { startedAt: 5_000 }).end(undefined, 4_000)
  await close(10_000)
  assert.deepEqual(counts, { sent: 3, lost: 0, reasons: new Set() })
  const [client, server, turned] = collector.spans
  assert.deepEqual(
    [server?.name, server?.parentSpanId, server?.kind, server?.from, server?.to, server?.code],
    ['above', spanId, 2, 1_000_500_000n, 2_000_250_000n, undefined],
  )
  assert.deepEqual(
    [client?.name, client?.parentSpanId, client?.kind, client?.code],
    ['below', server?.spanId, 3, 'TIMEOUT'],
  )
  const facts = { word: 'x'.repeat(256), count: 3, right: true, more: 'later', 'error.type': 'TIMEOUT' }
  assert.deepEqual(client?.facts, facts)
  assert.deepEqual([turned?.from, turned?.to], [turned?.to, turned?.from], 'a span does not end before it starts')
  assert.deepEqual(server?.resource, { 'service.name': 'gantry', 'service.instance.id': 'w-1' })
})

test('an unsampled trace is propagated, and none of its spans is exported', async (t) => {
  const collector = await startCollector(t)
  const { tracer, close } = await open({ endpoint: collector.url, sample: 1 })
  const span = tracer.start('above', `00-${traceId}-${spanId}-00`)
  const child = span.child('below')
  assert.match(child.traceparent, new RegExp(`^00-${traceId}-[0-9a-f]{16}-00$`))
  child.note({ a: 1 })
  child.end('TIMEOUT')
  span.end()
  await close(10_000)
  assert.deepEqual(collector.headers, [])
})

test('the sampler keeps the configured share of new traces', async (t) => {
  const collector = await startCollector(t)
  const { tracer, close } = await open({ endpoint: collector.url, sample: 0.5 })
  for (let count = 0; count < 400; count += 1) tracer.start('root', undefined).end()
  await close(10_000)
  assert.ok(collector.spans.length > 100 && collector.spans.length < 300, `${collector.spans.length} of 400`)
})

test('without a collector the queue of spans is bounded and dropped spans are counted', async (t) => {
  const collector = await startCollector(t)
  collector.mode = 'silent'
  const { tracer, close, counts } = await open({ endpoint: collector.url })
  for (let count = 0; count < 20_000; count += 1) tracer.start('root', undefined).end()
  assert.ok(counts.lost > 2_000 && counts.lost < 20_000 - 16_000, `${counts.lost} lost`)
  assert.deepEqual(counts.reasons, new Set(['too many wait for the collector']))
  await close(1)
})

test('spans that an unreachable collector loses are counted with the system error code alone', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  const { tracer, close, counts } = await open({ endpoint: `http://127.0.0.1:${port}` })
  tracer.start('root', undefined).end()
  t.after(() => close(1))
  await eventually(async () => (counts.lost === 1 ? true : undefined), 'a lost span')
  assert.deepEqual(counts.reasons, new Set(['ECONNREFUSED']))
})

test('a refused export is reported by its HTTP status, without the body of the response', async (t) => {
  const collector = await startCollector(t)
  collector.mode = 'refuses'
  const { tracer, close, counts } = await open({ endpoint: collector.url })
  tracer.start('root', undefined).end()
  await close(10_000)
  assert.deepEqual([counts.lost, [...counts.reasons]], [1, ['the collector answered 403']])
})

test('the exporter refuses a TLS collector of another authority or another name, before it sends headers', async (t) => {
  const [ours, theirs] = [makeAuthority(), makeAuthority('Another authority')]
  t.after(() => {
    ours.remove()
    theirs.remove()
  })
  const right = await startCollector(t, ours.issue())
  const misnamed = await startCollector(t, ours.issue({ hosts: ['elsewhere.example'] }))
  const tried = async (endpoint: string, ca?: string) => {
    const { tracer, close, counts } = await open({ endpoint, ...(ca === undefined ? {} : { ca }) })
    tracer.start('root', undefined).end()
    await close(10_000)
    return counts
  }
  assert.equal((await tried(right.url, ours.ca)).sent, 1)
  for (const refused of [tried(right.url, theirs.ca), tried(right.url), tried(misnamed.url, ours.ca)]) {
    const { sent, lost, reasons } = await refused
    assert.deepEqual([sent, lost], [0, 1])
    assert.match([...reasons].join(), /^[A-Z_]+$/)
  }
  assert.equal(right.spans.length, 1)
  assert.deepEqual(misnamed.headers, [], 'a header, which may be a secret, was sent')
})
