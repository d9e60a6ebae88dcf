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
