import { randomBytes } from 'node:crypto'
import type { Span, SpanFacts, SpanOptions, Tracer } from './tracer.ts'

/** A recorded span; `ends` counts how often it was ended, which must be once. */
export interface NotedSpan {
  readonly name: string
  readonly traceId: string
  readonly id: string
  readonly parent: string | undefined
  facts: SpanFacts
  code: string | undefined
  ends: number
}

/** Records every span in the order of its start. */
export function memoryTracer(): Tracer & { readonly spans: readonly NotedSpan[]; below(name: string): string[] } {
  const spans: NotedSpan[] = []
  const begin = (name: string, traceId: string, parent: string | undefined, { facts = {} }: SpanOptions): Span => {
    const id = randomBytes(8).toString('hex')
    const noted: NotedSpan = { name, traceId, id, parent, facts, code: undefined, ends: 0 }
    spans.push(noted)
    return {
      traceparent: `00-${traceId}-${id}-01`,
      child: (child, options = {}) => begin(child, traceId, id, options),
      note(more) {
        noted.facts = { ...noted.facts, ...more }
      },
      end(code) {
        noted.code = code
        noted.ends += 1
      },
    }
  }
  return {
    spans,
    below(name) {
      const ids = new Set(spans.filter((span) => span.name === name).map(({ id }) => id))
      return spans.filter(({ parent }) => ids.has(parent ?? '')).map((span) => span.name)
    },
    start(name, traceparent, options = {}) {
      const traceId = traceparent?.slice(3, 35) ?? randomBytes(16).toString('hex')
      return begin(name, traceId, traceparent?.slice(36, 52), options)
    },
  }
}
