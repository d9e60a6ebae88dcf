import { ToolError } from '@gantry/contract'

/** A reply of the server: text as bytes, because any client may have written it. */
export type Reply = Buffer | number | null | readonly Reply[]

/** A command: its name, then its arguments. */
export type Command = readonly [string, ...(string | number | Buffer)[]]

export function textOf(reply: Reply | undefined): string {
  return Buffer.isBuffer(reply) ? reply.toString('utf8') : typeof reply === 'number' ? String(reply) : ''
}

export function listOf(reply: Reply | undefined): readonly Reply[] {
  return isList(reply) ? reply : []
}

/** A number, or the number that the digits of a text are. */
export function numberOf(reply: Reply | undefined): number | undefined {
  if (typeof reply === 'number') return reply
  const digits = textOf(reply)
  return /^\d+$/.test(digits) ? Number(digits) : undefined
}

/** A reply of alternating names and values as a map; the last value of a repeated name counts. */
export function fieldsOf(reply: Reply | undefined): ReadonlyMap<string, Reply> {
  const flat = listOf(reply)
  const fields = new Map<string, Reply>()
  for (let at = 0; at + 1 < flat.length; at += 2) fields.set(textOf(flat[at]), flat[at + 1] ?? null)
  return fields
}

function isList(reply: Reply | undefined): reply is readonly Reply[] {
  return Array.isArray(reply)
}

/** Error replies of conditions that pass. */
const passing = new Set(
  'LOADING BUSY READONLY MASTERDOWN CLUSTERDOWN TRYAGAIN NOREPLICAS OOM MISCONF UNBLOCKED UNKILLABLE'.split(' '),
)

/**
 * Any failure of a command as STORE_UNAVAILABLE. A refusal for good is not retryable, and `details.reply` has its first
 * word; when the command may have been executed all the same, `details.outcome` is `unknown`. The client's own errors
 * carry the command with its arguments, the password among them, so only the text of the message is kept.
 */
export function redisError(error: unknown): ToolError {
  if (ToolError.is(error)) return error
  const { name, message } = error instanceof Error ? error : new Error(String(error))
  // The rest of the message is a copy of the arguments.
  const text = message.split(', with args')[0]?.slice(0, 200) ?? ''
  const cause = Object.assign(new Error(text), { name })
  if (name !== 'ReplyError') {
    const unsent = text.startsWith("Stream isn't writeable") || text.startsWith("Cluster isn't ready")
    return new ToolError('STORE_UNAVAILABLE', 'Redis is unreachable or does not answer.', {
      cause,
      ...(unsent ? {} : { effect: 'possible', details: { outcome: 'unknown' } }),
    })
  }
  const reply = /^[A-Z]+/.exec(text)?.[0] ?? 'ERR'
  return passing.has(reply)
    ? new ToolError('STORE_UNAVAILABLE', 'Redis cannot execute commands now.', { cause, details: { reply } })
    : new ToolError('STORE_UNAVAILABLE', 'Redis refused a command.', { cause, details: { reply }, retryable: false })
}

/** The first word of the server's error reply. */
export function refusalOf(error: unknown): unknown {
  return ToolError.is(error) ? error.details?.reply : undefined
}

/** The reason of a wait for a reply that was aborted. */
export function abortedWait(cause: unknown): ToolError {
  return new ToolError('CANCELLED', 'The wait was aborted.', { cause })
}
