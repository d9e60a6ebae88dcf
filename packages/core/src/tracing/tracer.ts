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
