import { ToolError } from '@gantry/contract'

/** What a span says of its work: names, kinds, counts and codes; never arguments, results or anything secret. */
export interface SpanFacts {
  readonly [name: string]: string | number | boolean
}

export interface SpanOptions {
  readonly facts?: SpanFacts
  /** `server` takes work from a caller, `consumer` from a queue, `client` hands it to somebody else. */
  readonly kind?: 'server' | 'consumer' | 'client'
  /** When it began, in milliseconds since 1970; now when absent. */
  readonly startedAt?: number
}

/** A piece of work as long as it lasts. Nothing here throws or waits, and a span that has ended takes no more. */
export interface Span {
  /** Where it stands in its trace, as W3C writes it, for whoever does a part of the work elsewhere. */
  readonly traceparent: string
  /** Begins a part of it. */
  child(name: string, options?: SpanOptions): Span
  note(facts: SpanFacts): void
  /** Ends it: well, or with the code of what ended it. */
  end(code?: string, endedAt?: number): void
}

/**
 * Takes note of who waited for what. Without one nothing is noted, and a call costs what it cost before.
 * - Concurrency: any number of spans at once, each ended by whoever began it.
 * - Errors: none; what becomes of a span is never the concern of the call.
 */
export interface Tracer {
  /** Begins a span below the place that a `traceparent` names, or a trace of its own. */
  start(name: string, traceparent: string | undefined, options?: SpanOptions): Span
}

/** Does work and ends its span with it, whatever comes of it; a promise is waited for. Without a span it only works. */
export function traced<T>(span: Span | undefined, work: () => T, code: (error: unknown) => string = codeOf): T {
  if (span === undefined) return work()
  let done: T
  try {
    done = work()
  } catch (error) {
    span.end(code(error))
    throw error
  }
  if (!(done instanceof Promise)) {
    span.end()
    return done
  }
  return done.then(
    (value: unknown) => {
      span.end()
      return value
    },
    (error: unknown) => {
      span.end(code(error))
      throw error
    },
  ) as T
}

/** What a span tells of a failure: its code, never its words. */
export function codeOf(error: unknown): string {
  return ToolError.is(error) ? error.code : 'INTERNAL'
}

/** Version, trace id, span id and flags; the version `ff` and ids of zeros mean nothing. */
const form = /^(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/
const length = 55
/** Later versions may be longer, but nobody has to read without end. */
const longest = 512

/**
 * The place in a trace that a W3C `traceparent` names, written anew in the version that we speak; undefined for what
 * is none, which W3C wants ignored. Of the flags only the one counts that says whether the trace is kept.
 */
export function readTraceparent(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > longest) return undefined
  const [, version, ids, flags = '0'] = form.exec(value) ?? []
  if (ids === undefined || (version === '00' && value.length !== length)) return undefined
  return `00-${ids}-0${Number.parseInt(flags, 16) & 1}`
}

/** The trace that a place is in; the text must be what `readTraceparent` answered. */
export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35)
}
