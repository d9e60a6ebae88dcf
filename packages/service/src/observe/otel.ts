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

/** Limit of queued spans, which bounds memory: some seconds of a busy worker. */
const mostWaiting = 16_384
const batch = { maxQueueSize: mostWaiting, maxExportBatchSize: 512, scheduledDelayMillis: 1_000 }
/** Time limit of one batch with all its retries. */
const sendMs = 5_000
/** Limits for attributes that callers control, such as ids. */
const limits = { attributeValueLengthLimit: 256, attributeCountLimit: 16, eventCountLimit: 1, linkCountLimit: 1 }

/** The OpenTelemetry SDK without globals: no context manager, propagator or instrumentation. */
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

/** Batches spans and emits how many were sent, refused by the collector, or dropped because the queue is full. */
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

/** Only the HTTP status or the system error code, because the response of a collector may contain anything. */
function reasonOf(error: (Error & { code?: unknown }) | undefined): string {
  const code = error?.code
  if (typeof code === 'number') return `the collector answered ${code}`
  return typeof code === 'string' && /^[A-Z_]{1,40}$/.test(code) ? code : 'the collector refused them'
}

const kinds = { server: SpanKind.SERVER, consumer: SpanKind.CONSUMER, client: SpanKind.CLIENT }

/** Implements the library's Tracer on OpenTelemetry. Parents are passed explicitly, never taken from a context. */
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
    // Created with the first child, because most spans have none.
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

/** An unsampled span only propagates the trace context; it is its own child. */
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

/** Wall-clock time below a millisecond. The monotonic clock drifts from it, so it is resynchronized periodically. */
function createNow(): () => number {
  let [offset, alignedAt] = [0, Number.NEGATIVE_INFINITY]
  return () => {
    const at = performance.now()
    if (at - alignedAt > alignMs) [offset, alignedAt] = [Date.now() - at, at]
    return at + offset
  }
}
