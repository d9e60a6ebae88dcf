type Id = string | number

export interface RefusedJson {
  readonly jsonrpc: '2.0'
  readonly id: Id | null
  readonly error: { readonly code: number; readonly message: string }
}

/**
 * The answer to a text that was not taken: under the id of its request where one can be read, so that nobody waits for
 * ever for what was refused.
 */
export function refusedJson(text: string, reason: string): RefusedJson {
  const id = requestIdIn(text)
  if (id !== null) return refusedMessage(id, reason)
  return { jsonrpc: '2.0', id, error: { code: -32_700, message: `Parse error: ${reason}` } }
}

/** The answer to what is JSON and no message that can be taken. */
export function refusedMessage(id: Id | null, reason: string): RefusedJson {
  return { jsonrpc: '2.0', id, error: { code: -32_600, message: reason } }
}

/** The id under which a value is answered: null where it has none, or is an answer, whose id is one of ours. */
export function requestIdOf(value: unknown): Id | null {
  const { id } = (value ?? {}) as { readonly id?: unknown }
  const good = typeof id === 'string' || Number.isSafeInteger(id)
  return good && !isAnswer(value) ? (id as Id) : null
}

/** Whether a value looks like an answer to a request of ours, which is never answered itself. */
export function isAnswer(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false
  return !('method' in value) && ('result' in value || 'error' in value)
}

function requestIdIn(text: string): Id | null {
  try {
    return requestIdOf(JSON.parse(shallow(text)))
  } catch {
    return null
  }
}

/** A JSON text without what its members hold, because to build all that was refused for its size would cost too much. */
function shallow(text: string): string {
  let kept = ''
  let [depth, from] = [0, 0]
  for (let at = 0; at < text.length; at += 1) {
    const character = text[at]
    if (character === '"') at = stringEnd(text, at)
    else if (character === '{' || character === '[') {
      depth += 1
      if (depth === 2) kept += text.slice(from, at + 1)
    } else if (character === '}' || character === ']') {
      if (depth === 2) from = at
      depth -= 1
    }
  }
  return kept + text.slice(from)
}

function stringEnd(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}
