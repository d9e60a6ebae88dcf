import { Agent as PlainAgent } from 'node:http'
import { Agent as SecureAgent } from 'node:https'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Span, SpanOptions, Tracer } from '@gantry/core'
import {
  type Context,
  type HrTime,
  type Span as OtelSpan,
  type Tracer as OtelTracer,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  TraceFlags,
  trace,
} from '@opentelemetry/api'
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

const kinds = { server: SpanKind.SERVER, consumer: SpanKind.CONSUMER, client: SpanKind.CLIENT }

/** The port of the library on a tracer of OpenTelemetry. Parents are handed over by hand, never found by themselves. */
export function otelTracer(otel: OtelTracer): Tracer {
  const now = createNow()
  const begin = (name: string, above: Context, { facts, kind, startedAt }: SpanOptions): Span => {
    const started = startedAt ?? now()
    const span = otel.startSpan(
      name,
      {
        startTime: hrTime(started),
        ...(facts === undefined ? {} : { attributes: facts }),
        ...(kind === undefined ? {} : { kind: kinds[kind] }),
      },
      above,
    )
    return span.isRecording() ? kept(span, started) : passedOn(span)
  }
  const kept = (span: OtelSpan, started: number): Span => {
    // Made with the first child: most spans have none.
    let here: Context | undefined
    return {
      get traceparent() {
        return traceparentOf(span)
      },
      child(name, options = {}) {
        here ??= trace.setSpan(ROOT_CONTEXT, span)
        return begin(name, here, options)
      },
      note: (facts) => void span.setAttributes(facts),
      end(code, endedAt = now()) {
        if (code !== undefined) {
          span.setAttribute('error.type', code)
          span.setStatus({ code: SpanStatusCode.ERROR, message: code })
        }
        span.end(hrTime(Math.max(started, endedAt)))
      },
    }
  }
  return {
    start: (name, traceparent, options = {}) => begin(name, contextOf(traceparent), options),
  }
}

/** A span that nobody keeps only says where the work belongs; what is below it is the same place. */
function passedOn(span: OtelSpan): Span {
  const silent: Span = {
    traceparent: traceparentOf(span),
    child: () => silent,
    note: () => undefined,
    end: () => undefined,
  }
  return silent
}

function contextOf(traceparent: string | undefined): Context {
  if (traceparent === undefined) return ROOT_CONTEXT
  const traceFlags = traceparent.endsWith('1') ? TraceFlags.SAMPLED : TraceFlags.NONE
  const place = { traceId: traceparent.slice(3, 35), spanId: traceparent.slice(36, 52), traceFlags, isRemote: true }
  return trace.setSpanContext(ROOT_CONTEXT, place)
}

function traceparentOf(span: OtelSpan): string {
  const { traceId, spanId, traceFlags } = span.spanContext()
  return `00-${traceId}-${spanId}-0${traceFlags & TraceFlags.SAMPLED}`
}

function hrTime(ms: number): HrTime {
  const seconds = Math.floor(ms / 1_000)
  return [seconds, Math.round((ms - seconds * 1_000) * 1e6)]
}

const alignMs = 60_000

/** The time of day in fractions of a millisecond; the finer clock drifts from the day's, so it is set by it now and then. */
function createNow(): () => number {
  let [offset, alignedAt] = [0, Number.NEGATIVE_INFINITY]
  return () => {
    const at = performance.now()
    if (at - alignedAt > alignMs) [offset, alignedAt] = [Date.now() - at, at]
    return at + offset
  }
}
