/** What of the tools a program may name, as far as its text tells. */
export interface Mentions {
  readonly namespaces: readonly string[]
  readonly ids: readonly string[]
  /** Every word and short text of it: a tool of a namespace is meant only when its name is one of them. */
  readonly words: ReadonlySet<string>
}

const mostMentions = 200
const name = '[A-Za-z0-9_.$-]{1,128}'
const member =
  /\btools\s*\??\.?\s*(?:\.\s*([A-Za-z_$][\w$]{0,127})|([A-Za-z_$][\w$]{0,127})|\[\s*(['"`])([^'"`\n]{1,128})\3\s*\])/g
const taken = /\{([^{}]{0,2000})\}\s*=\s*tools\b/g
const id = new RegExp(`(['"\`])(${name}:${name}(?::[^'"\`\\n]{1,64})?)\\1`, 'g')
const versioned = new RegExp(`^${name}:[0-9^~<>=*x][^:]{0,64}$`)
const text = /(['"`])([^'"`\n]{1,128})\1/g

/**
 * Finds what a program names: `tools.x`, `tools["x"]`, `{ x, y: z } = tools` and texts that could be ids or have a version. Finding too much
 * costs a declaration, and what is not found is not declared, which the check then says.
 */
export function mentionsOf(source: string): Mentions {
  const namespaces = new Set<string>()
  for (const [, dotted, bare, , quoted] of source.matchAll(member)) namespaces.add(dotted ?? bare ?? quoted ?? '')
  for (const [, inner = ''] of source.matchAll(taken)) {
    for (const part of inner.split(',')) namespaces.add((part.split(':')[0] ?? '').trim().replace(/^['"]|['"]$/g, ''))
  }
  const ids = new Set([...source.matchAll(id)].map(([, , inner = '']) => inner))
  const texts = [...source.matchAll(text)].map(([, , inner = '']) => inner)
  for (const each of texts.filter((inner) => versioned.test(inner))) {
    for (const namespace of namespaces) ids.add(`${namespace}:${each}`)
  }
  for (const each of ids) namespaces.add(each.slice(0, each.indexOf(':')))
  return {
    namespaces: [...namespaces].filter((each) => each !== '').slice(0, mostMentions),
    ids: [...ids].slice(0, mostMentions),
    words: new Set([...(source.match(/[\w$]+/g) ?? []), ...texts]),
  }
}
