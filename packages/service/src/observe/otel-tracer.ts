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
