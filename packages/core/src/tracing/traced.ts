import { ToolError } from '@gantry/contract'
import type { Span } from './tracer.ts'

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
