import { readFileSync } from 'node:fs'
import { createServer, type IncomingHttpHeaders, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import type { TestContext } from 'node:test'
import type { Certificate } from '../../../scripts/engines/certificates.ts'
import { eventually } from './broker-site.fixture.ts'

/** A span as decoded from OTLP. */
export interface SentSpan {
  readonly name: string
  readonly kind: number
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId: string
  readonly from: bigint
  readonly to: bigint
  readonly facts: { readonly [name: string]: unknown }
  /** The error code; undefined if the span ended well. */
  readonly code: string | undefined
  readonly resource: { readonly [name: string]: unknown }
}

/** A local trace collector for OTLP over HTTP with JSON. */
export interface Collector {
  readonly url: string
  readonly spans: SentSpan[]
  /** Every request body, to search for text that must not be in it. */
  readonly bodies: string[]
  readonly headers: IncomingHttpHeaders[]
  /** Whether it accepts spans, rejects them, or does not respond. */
  mode: 'takes' | 'refuses' | 'silent'
  /** The spans of a trace, once every wanted name has arrived as often as it is listed. */
  trace(traceId: string, wanted: readonly string[]): Promise<readonly SentSpan[]>
}

export async function startCollector(t: TestContext, tls?: Certificate): Promise<Collector> {
  const answer: RequestListener = async (request, response) => {
    const body = await text(request)
    collector.headers.push(request.headers)
    if (collector.mode === 'silent') return
    const known = request.method === 'POST' && request.url === '/v1/traces'
    const json = request.headers['content-type'] === 'application/json'
    if (!known || !json || collector.mode === 'refuses') {
      response.writeHead(known && json ? 403 : 400).end('canary in an answer')
      return
    }
    collector.bodies.push(body)
    collector.spans.push(...readSpans(JSON.parse(body)))
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"partialSuccess":{}}')
  }
  const server =
    tls === undefined
      ? createServer(answer)
      : createSecureServer({ cert: readFileSync(tls.certFile), key: readFileSync(tls.keyFile) }, answer)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const collector: Collector = {
    url: `http${tls === undefined ? '' : 's'}://127.0.0.1:${(server.address() as AddressInfo).port}`,
    spans: [],
    bodies: [],
    headers: [],
    mode: 'takes',
    trace: (traceId, wanted) =>
      eventually(
        async () => {
          const spans = collector.spans.filter((span) => span.traceId === traceId)
          const names = spans.map(({ name }) => name)
          const missing = wanted.filter((name) => !(names.includes(name) && names.splice(names.indexOf(name), 1)))
          return missing.length === 0 ? spans : undefined
        },
        `a trace with ${wanted.join(', ')}`,
      ),
  }
  return collector
}

/** The names from the root span to this span. */
export function pathTo(spans: readonly SentSpan[], span: SentSpan | undefined): string[] {
  if (span === undefined) return []
  const parent = spans.find(({ spanId }) => spanId === span.parentSpanId)
  return [...pathTo(spans, parent), span.name]
}

interface Attribute {
  readonly key: string
  readonly value: { readonly [kind: string]: unknown }
}

interface Sent {
  readonly resourceSpans: readonly {
    readonly resource: { readonly attributes: readonly Attribute[] }
    readonly scopeSpans: readonly { readonly spans: readonly SentJson[] }[]
  }[]
}

interface SentJson extends Pick<SentSpan, 'name' | 'kind' | 'traceId' | 'spanId'> {
  readonly parentSpanId?: string
  readonly startTimeUnixNano: string
  readonly endTimeUnixNano: string
  readonly attributes: readonly Attribute[]
  readonly status: { readonly code?: number; readonly message?: string }
}

function readSpans({ resourceSpans }: Sent): SentSpan[] {
  return resourceSpans.flatMap(({ resource, scopeSpans }) =>
    scopeSpans.flatMap(({ spans }) =>
      spans.map(({ name, kind, traceId, spanId, parentSpanId = '', status, ...span }) => ({
        name,
        kind,
        traceId,
        spanId,
        parentSpanId,
        from: BigInt(span.startTimeUnixNano),
        to: BigInt(span.endTimeUnixNano),
        facts: factsOf(span.attributes),
        code: status.code === 2 ? status.message : undefined,
        resource: factsOf(resource.attributes),
      })),
    ),
  )
}

function factsOf(attributes: readonly Attribute[]): SentSpan['facts'] {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}
