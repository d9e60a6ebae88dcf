import { ToolError } from '@gantry/contract'

/** Answers that say that the server cannot do it now, and may be able to later. */
const passing = new Set(
  'LOADING BUSY READONLY MASTERDOWN CLUSTERDOWN TRYAGAIN NOREPLICAS OOM MISCONF UNBLOCKED UNKILLABLE'.split(' '),
)

/**
 * Any failure of a command as STORE_UNAVAILABLE. What the server refused for good is not retryable, and
 * `details.reply` has the first word of what it said; when the command may have been done all the same,
 * `details.outcome` is `unknown`. The client's own errors carry the command with its arguments, the password among
 * them, so nothing but the words of the message is kept.
 */
export function redisError(error: unknown): ToolError {
  if (ToolError.is(error)) return error
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  // What follows is a copy of the arguments.
  const said = message.split(', with args')[0]?.slice(0, 200) ?? ''
  const cause = Object.assign(new Error(said), { name })
  if (name !== 'ReplyError') {
    const unsent = said.startsWith("Stream isn't writeable") || said.startsWith("Cluster isn't ready")
    return new ToolError('STORE_UNAVAILABLE', 'Redis cannot be reached or does not answer.', {
      cause,
      ...(unsent ? {} : { effect: 'possible', details: { outcome: 'unknown' } }),
    })
  }
  const reply = /^[A-Z]+/.exec(said)?.[0] ?? 'ERR'
  return passing.has(reply)
    ? new ToolError('STORE_UNAVAILABLE', 'Redis cannot take commands now.', { cause, details: { reply } })
    : new ToolError('STORE_UNAVAILABLE', 'Redis refused a command.', { cause, details: { reply }, retryable: false })
}

/** The first word of what the server said when it refused. */
export function refusalOf(error: unknown): unknown {
  return ToolError.is(error) ? error.details?.reply : undefined
}
