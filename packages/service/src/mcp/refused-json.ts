export interface RefusedJson {
  readonly jsonrpc: '2.0'
  readonly id: string | number | null
  readonly error: { readonly code: number; readonly message: string }
}

/**
 * The answer to a text that was not taken: under the id of its request where one can be read, so that nobody waits for
 * ever for what was refused.
 */
export function refusedJson(text: string, reason: string): RefusedJson {
  const id = requestIdIn(text)
  const error = id === null ? { code: -32_700, message: `Parse error: ${reason}` } : { code: -32_600, message: reason }
  return { jsonrpc: '2.0', id, error }
}

function requestIdIn(text: string): string | number | null {
  try {
    const { id, method } = (JSON.parse(shallow(text)) ?? {}) as { readonly id?: unknown; readonly method?: unknown }
    // What has an id and no method is an answer, whose id is one of ours.
    return typeof method === 'string' && (typeof id === 'string' || Number.isSafeInteger(id)) ? (id as string) : null
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
