import { ToolError } from '@gantry/contract'

/** Attributes of a span: names, kinds, counts and codes; never arguments, results or secrets. */
export interface SpanFacts {
  readonly [name: string]: string | number | boolean
}

export interface SpanOptions {
  readonly facts?: SpanFacts
  /** `server` receives a request, `consumer` reads from a queue, `client` calls another process. */
  readonly kind?: 'server' | 'consumer' | 'client'
  /** Start time in milliseconds since 1970; now when absent. */
  readonly startedAt?: number
}

/** A running span. No method throws or waits, and an ended span ignores further calls. */
export interface Span {
  /** Its W3C `traceparent`, to propagate to other processes. */
  readonly traceparent: string
  /** Starts a child span. */
  child(name: string, options?: SpanOptions): Span
  note(facts: SpanFacts): void
  /** Ends the span: successfully, or with an error code. */
  end(code?: string, endedAt?: number): void
}

/**
 * Records spans. Without a tracer nothing is recorded and a call has no overhead.
 * - Concurrency: any number of spans at once, each ended by its creator.
 * - Errors: none; a failure to record a span never affects the call.
 */
export interface Tracer {
  /** Starts a span below the given `traceparent`, or a new trace. */
  start(name: string, traceparent: string | undefined, options?: SpanOptions): Span
}

/** Runs work and ends its span with the outcome, after a returned promise settles. Without a span it only runs the work. */
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

/** The error code that a span records; never the message. */
export function codeOf(error: unknown): string {
  return ToolError.is(error) ? error.code : 'INTERNAL'
}

/** Version, trace id, span id and flags; the version `ff` and ids of zeros are invalid. */
const form = /^(?!ff)([0-9a-f]{2})-((?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/
const length = 55
/** Later versions may be longer; this bounds the parser. */
const longest = 512

/**
 * Parses a W3C `traceparent` and formats it as version 00; undefined for an invalid one, which W3C requires to be
 * ignored. Of the flags only `sampled` is kept.
 */
export function readTraceparent(value: unknown): string | undefined {
  if (typeof value !== 'string' || value.length > longest) return undefined
  const [, version, ids, flags = '0'] = form.exec(value) ?? []
  if (ids === undefined || (version === '00' && value.length !== length)) return undefined
  return `00-${ids}-0${Number.parseInt(flags, 16) & 1}`
}

/** The trace id of a `traceparent` that `readTraceparent` returned. */
export function traceIdOf(traceparent: string): string {
  return traceparent.slice(3, 35)
}
