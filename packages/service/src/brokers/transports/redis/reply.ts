import { ToolError } from '@gantry/contract'

/** What a server answers: text as bytes, because nobody knows before who wrote it. */
export type Reply = Buffer | number | null | readonly Reply[]

/** What a command is made of, its name first. */
export type Command = readonly [string, ...(string | number | Buffer)[]]

export function textOf(reply: Reply | undefined): string {
  return Buffer.isBuffer(reply) ? reply.toString('utf8') : typeof reply === 'number' ? String(reply) : ''
}

export function listOf(reply: Reply | undefined): readonly Reply[] {
  return isList(reply) ? reply : []
}

/** The answer is a number, or the digits of one. */
export function numberOf(reply: Reply | undefined): number | undefined {
  if (typeof reply === 'number') return reply
  const digits = textOf(reply)
  return /^\d+$/.test(digits) ? Number(digits) : undefined
}

/** Names and values in turns, as the server tells of a thing; of a name that comes twice the last value counts. */
export function fieldsOf(reply: Reply | undefined): ReadonlyMap<string, Reply> {
  const flat = listOf(reply)
  const fields = new Map<string, Reply>()
  for (let at = 0; at + 1 < flat.length; at += 2) fields.set(textOf(flat[at]), flat[at + 1] ?? null)
  return fields
}

function isList(reply: Reply | undefined): reply is readonly Reply[] {
  return Array.isArray(reply)
}

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
