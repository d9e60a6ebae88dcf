/** What of the tools a program may name, as far as its text tells. */
export interface Mentions {
  readonly namespaces: readonly string[]
  readonly ids: readonly string[]
  /** Every word and short text of it: a tool of a namespace is meant only when its name is one of them. */
  readonly words: ReadonlySet<string>
}

const mostMentions = 200
const name = '[A-Za-z0-9_.$-]{1,128}'
const identifier = /[A-Za-z_$][\w$]{0,127}/y
const quoted = /(['"`])([^'"`\n]{1,128})\1/y
const blank = /\s*/y
const taken = /\{([^{}]{0,2000})\}\s*=\s*tools\b/g
const id = new RegExp(`(['"\`])(${name}:${name}(?::[^'"\`\\n]{1,64})?)\\1`, 'g')
const versioned = new RegExp(`^${name}:[0-9^~<>=*x][^:]{0,64}$`)
const text = /(['"`])([^'"`\n]{1,128})\1/g

/**
 * Finds what a program names: `tools.x`, `tools["x"]`, `{ x, y: z } = tools` and texts that could be ids or have a version. Finding too much
 * costs a declaration, and what is not found is not declared, which the check then says. Linear in the text, because it runs on the event loop.
 */
export function mentionsOf(source: string): Mentions {
  const namespaces = new Set<string>()
  membersIn(source, namespaces)
  for (const [, inner = ''] of source.matchAll(taken)) {
    for (const part of inner.split(',')) keep(namespaces, (part.split(':')[0] ?? '').trim().replace(/^['"]|['"]$/g, ''))
  }
  const ids = new Set<string>()
  for (const [, , inner = ''] of source.matchAll(id)) keep(ids, inner)
  const words = new Set(source.match(/[\w$]+/g) ?? [])
  const versions = new Set<string>()
  for (const [, , inner = ''] of source.matchAll(text)) {
    words.add(inner)
    if (versioned.test(inner)) keep(versions, inner)
  }
  for (const each of versions) for (const namespace of namespaces) keep(ids, `${namespace}:${each}`)
  for (const each of ids) keep(namespaces, each.slice(0, each.indexOf(':')))
  return { namespaces: [...namespaces], ids: [...ids], words }
}

/** Keeps no more texts than are looked up, because their number is the author's. */
function keep(kept: Set<string>, each: string): void {
  if (each !== '' && kept.size < mostMentions) kept.add(each)
}

/** Reads on behind each `tools`; a run of blanks is passed over once, which no expression with two runs in a row does. */
function membersIn(source: string, namespaces: Set<string>): void {
  const match = (pattern: RegExp, at: number): RegExpExecArray | null => {
    pattern.lastIndex = at
    return pattern.exec(source)
  }
  const pass = (at: number, sign = ''): number => {
    const from = source.startsWith(sign, at) ? at + sign.length : at
    return from + (match(blank, from)?.[0].length ?? 0)
  }
  for (const { index } of source.matchAll(/\btools(?![\w$])/g)) {
    const at = pass(pass(pass(index + 'tools'.length), '?'), '.')
    if (source[at] === '[') keep(namespaces, match(quoted, pass(at, '['))?.[2] ?? '')
    else keep(namespaces, match(identifier, at)?.[0] ?? '')
  }
}
