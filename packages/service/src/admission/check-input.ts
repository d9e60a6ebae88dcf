import { type Issue, ToolError } from '@gantry/contract'
import type { CallInput } from '../storage/call-input.ts'

const longestKey = 200
const longestDelayMs = 30 * 24 * 3_600_000
const highestPriority = 100
const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/
/** Controls, and what some readers take for the end of a line. */
const unprintable = /[\p{Cc}\u2028\u2029]/u

/** Refuses a call whose outer shape is wrong, with every path that is. */
export function checkInput(input: CallInput): void {
  const issues = [...issuesOf(input)]
  if (issues.length === 0) return
  const [first] = issues
  const message = `The call is not valid: ${first?.path} ${first?.message}.`
  throw new ToolError('PAYLOAD_INVALID', message, { details: { issues } })
}

function* issuesOf(input: CallInput): Generator<Issue> {
  const { tool, idempotencyKey, schemaDigest, priority, timeoutMs, delayMs, deadline, traceparent, onCircuitOpen } =
    input
  if (input.kind === 'call' && !isName(tool, 500)) yield { path: '/tool', message: 'must be the id of a tool' }
  if (!isName(idempotencyKey ?? 'none', longestKey)) {
    yield { path: '/idempotencyKey', message: `must be a text of 1 to ${longestKey} printable characters` }
  }
  if (!isName(schemaDigest ?? 'none', longestKey)) yield { path: '/schemaDigest', message: 'must be a digest' }
  if (!isName(traceparent ?? 'none', longestKey)) yield { path: '/traceparent', message: 'must be a trace context' }
  if (priority !== undefined && !(Number.isInteger(priority) && Math.abs(priority) <= highestPriority)) {
    yield { path: '/priority', message: `must be a whole number from -${highestPriority} to ${highestPriority}` }
  }
  if (timeoutMs !== undefined && !(timeoutMs > 0 && Number.isInteger(timeoutMs) && timeoutMs < 2 ** 31)) {
    yield { path: '/timeoutMs', message: 'must be a whole number of milliseconds above 0' }
  }
  if (onCircuitOpen !== undefined && onCircuitOpen !== 'fail' && onCircuitOpen !== 'wait') {
    yield { path: '/onCircuitOpen', message: 'must be fail or wait' }
  }
  if (delayMs !== undefined && !(delayMs >= 0 && Number.isInteger(delayMs) && delayMs <= longestDelayMs)) {
    yield { path: '/delayMs', message: `must be a whole number of milliseconds up to ${longestDelayMs}` }
  }
  if (deadline !== undefined && !(isoTime.test(String(deadline)) && Date.parse(String(deadline)) > 0)) {
    yield { path: '/deadline', message: 'must be a time such as 2030-01-31T12:00:00Z' }
  }
}

/** Texts that go into the database and into logs as they are. */
function isName(value: unknown, longest: number): boolean {
  if (typeof value !== 'string' || value.length === 0 || value.length > longest) return false
  return value.isWellFormed() && !unprintable.test(value)
}
