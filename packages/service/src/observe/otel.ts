import { Agent as PlainAgent } from 'node:http'
import { Agent as SecureAgent } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  type SpanProcessor,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Bus } from './bus.ts'
import { otelTracer } from './otel-tracer.ts'
import type { Tracing, TracingOptions } from './tracing.ts'

/** Spans that may wait for the collector: some seconds of a busy worker, and no more memory than that. */
const mostWaiting = 16_384
const batch = { maxQueueSize: mostWaiting, maxExportBatchSize: 512, scheduledDelayMillis: 1_000 }
/** For one batch with all its repeats. */
const sendMs = 5_000
/** What a caller could make long, such as an id, is cut. */
const limits = { attributeValueLengthLimit: 256, attributeCountLimit: 16, eventCountLimit: 1, linkCountLimit: 1 }

/** The SDK of OpenTelemetry with nothing global: no context, no propagator and no instrumentation of anything else. */
export function otelTracing({ endpoint, headers, sample, ca, worker, bus }: TracingOptions): Tracing {
  const url = urlOf(endpoint)
  const agent = url.startsWith('https:')
    ? new SecureAgent({ keepAlive: true, ...(ca === undefined ? {} : { ca }) })
    : new PlainAgent({ keepAlive: true })
  const exporter = new OTLPTraceExporter({
    url,
    headers: { ...headers },
    timeoutMillis: sendMs,
    httpAgentOptions: () => agent,
  })
  const provider = new TracerProvider({
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sample) }),
    resource: resourceFromAttributes({ 'service.name': 'gantry', 'service.instance.id': worker }),
    spanLimits: limits,
    spanProcessors: [countedProcessor(exporter, bus)],
  })
  return {
    tracer: otelTracer(provider.getTracer('gantry')),
    async close(ms) {
      const late = new AbortController()
      const sent = provider.shutdown().catch(() => undefined)
      await Promise.race([sent, sleep(ms, undefined, { signal: late.signal }).catch(() => undefined)])
      late.abort()
      agent.destroy()
    },
  }
}

function urlOf(endpoint: string): string {
  return /\/v1\/traces\/?$/.test(endpoint) ? endpoint : `${endpoint.replace(/(?<!\/)\/+$/, '')}/v1/traces`
}

/** Batches, and tells what was sent and what was lost: refused by the collector, or one too many to wait for it. */
function countedProcessor(exporter: SpanExporter, bus: Bus): SpanProcessor {
  let waiting = 0
  const counted: SpanExporter = {
    export(spans, done) {
      waiting -= spans.length
      exporter.export(spans, (result) => {
        if (result.code === 0) bus.emit('spans:sent', { spans: spans.length })
        else bus.emit('spans:lost', { spans: spans.length, reason: reasonOf(result.error) })
        done(result)
      })
    },
    shutdown: () => exporter.shutdown(),
  }
  const batching = new BatchSpanProcessor({ exporter: counted, ...batch, exportTimeoutMillis: 2 * sendMs })
  return {
    onStart: () => undefined,
    onEnd(span) {
      if (waiting >= mostWaiting) {
        bus.emit('spans:lost', { spans: 1, reason: 'too many wait for the collector' })
        return
      }
      waiting += 1
      batching.onEnd(span)
    },
    forceFlush: () => batching.forceFlush(),
    shutdown: () => batching.shutdown(),
  }
}

/** The status or the system's code and nothing else: a collector's answer may hold anything. */
function reasonOf(error: (Error & { code?: unknown }) | undefined): string {
  const code = error?.code
  if (typeof code === 'number') return `the collector answered ${code}`
  return typeof code === 'string' && /^[A-Z_]{1,40}$/.test(code) ? code : 'the collector did not take them'
}
