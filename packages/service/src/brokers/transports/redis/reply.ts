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
