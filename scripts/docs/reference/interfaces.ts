import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

/** A member of an interface, as the source writes it. */
export interface SourceMember {
  readonly doc: string
  readonly type: string
}

interface SourceType {
  readonly members: ReadonlyMap<string, SourceMember>
  /** Types whose members it has too, in their order; for an alias the text that it stands for. */
  readonly bases: readonly string[]
}

/** The exported and local types of all packages by name. Their comments describe the keys of a configuration. */
export interface Sources {
  /** The member of a type, which is a name or a text such as `Partial<KafkaSettings>` or `{ readonly a: string }`. */
  memberOf(type: string, key: string): SourceMember | undefined
}

export function readSources(root: string): Sources {
  const types = new Map<string, SourceType[]>()
  const files = globSync('packages/*/src/**/*.ts', { cwd: root }).filter(
    (file) => !/\.(?:test|fixture)\.ts$/.test(file),
  )
  for (const file of files.sort()) {
    for (const [name, type] of typesOf(readFileSync(join(root, file), 'utf8'))) {
      types.set(name, [...(types.get(name) ?? []), type])
    }
  }
  const find = (text: string, key: string, depth: number): SourceMember | undefined => {
    const type = text.trim()
    if (depth > 12 || type === '') return undefined
    if (type.startsWith('{')) return membersOf(type.slice(1, type.lastIndexOf('}'))).get(key)
    const parts = split(type, '|').length > 1 ? split(type, '|') : split(type, '&')
    if (parts.length > 1) return first(parts, (part) => find(part, key, depth + 1))
    const indexed = /^(.*)\['(\w+)'\]$/s.exec(unwrapped(type))
    if (indexed !== null) {
      const member = find(indexed[1] ?? '', indexed[2] ?? '', depth + 1)
      return member && find(itemType(member.type), key, depth + 1)
    }
    const [, name = ''] = /^(\w+)/.exec(unwrapped(type)) ?? []
    return first(
      types.get(name) ?? [],
      ({ members, bases }) => members.get(key) ?? first(bases, (base) => find(base, key, depth + 1)),
    )
  }
  return { memberOf: (type, key) => find(itemType(type), key, 0) }
}

function first<T, R>(list: Iterable<T>, use: (one: T) => R | undefined): R | undefined {
  for (const one of list) {
    const found = use(one)
    if (found !== undefined) return found
  }
  return undefined
}

/** The type of the items of a list or of the values of a map; any other type as it is. */
export function itemType(type: string): string {
  const text = type.trim()
  const inner = unwrapped(text)
  const list = /^readonly (.*)\[\]$/s.exec(inner) ?? /^(\w+)\[\]$/.exec(inner)
  if (list !== null && split(inner, '|').length === 1) return itemType((list[1] ?? '').replace(/^\((.*)\)$/s, '$1'))
  const map = /^\{\s*readonly \[[^\]]*\]: (.*?)\s*\}$/s.exec(inner)
  return map === null ? text : itemType(map[1] ?? '')
}

/** Without the types of the language that change no member's meaning. */
function unwrapped(type: string): string {
  const text = type.trim()
  const [, , inner = ''] =
    /^(Partial|Omit|Pick|NonNullable|Exclude|Extract|Required|Readonly)<(.*)>(?=$|\[)/s.exec(text) ?? []
  if (inner === '') return text
  const rest = text.endsWith(']') && !text.endsWith('[]') ? (/\['\w+'\]$/.exec(text)?.[0] ?? '') : ''
  return unwrapped((split(inner, ',')[0] ?? '') + rest)
}

/** Splits at a sign outside of brackets and quotes. */
function split(text: string, sign: string): readonly string[] {
  const parts: string[] = ['']
  let depth = 0
  let quote = ''
  for (const [at, letter] of [...text].entries()) {
    if (quote !== '') quote = letter === quote ? '' : quote
    else if (`'"`.includes(letter)) quote = letter
    else if ('([{<'.includes(letter)) depth += 1
    else if (')]}'.includes(letter) || (letter === '>' && text[at - 1] !== '=')) depth -= 1
    if (letter === sign && depth === 0 && quote === '') parts.push('')
    else parts[parts.length - 1] += letter
  }
  return parts.filter((part) => part.trim() !== '')
}

const interfaceStart = /^(?:export )?interface (\w+)(?:<[^{]*>)?(?:\s+extends\s+([^{]+?))?\s*\{/gms
const aliasStart = /^(?:export )?type (\w+)(?:<[^=]*>)? =/gm

function typesOf(text: string): [string, SourceType][] {
  const found: [string, SourceType][] = []
  for (const match of text.matchAll(interfaceStart)) {
    const start = match.index + match[0].length
    const end = text.indexOf('\n}', start)
    const body = text[start] === '}' || end < 0 ? '' : text.slice(start, end)
    found.push([match[1] ?? '', { members: membersOf(body), bases: split(match[2] ?? '', ',') }])
  }
  for (const match of text.matchAll(aliasStart)) {
    const start = match.index + match[0].length
    const end = text.slice(start).search(/\n(?=\S)(?![|&}])/)
    found.push([
      match[1] ?? '',
      {
        members: new Map(),
        bases: [
          text
            .slice(start, end < 0 ? undefined : start + end)
            .replace(/;?\s*$/, '')
            .replace(/\n\}$/, '\n}'),
        ],
      },
    ])
  }
  return found
}

const comment = /^\s*\/\*\*([\s\S]*?)\*\//

/** The members of the body of an interface, with the comment above each; a comment covers members directly below it. */
function membersOf(body: string): ReadonlyMap<string, SourceMember> {
  const members = new Map<string, SourceMember>()
  let rest = body
  while (rest.trim() !== '') {
    const [whole = '', text = ''] = comment.exec(rest) ?? []
    const after = rest.slice(whole.length)
    const end = memberEnd(after)
    const member = after.slice(0, end)
    const [, name = '', type = ''] =
      /^\s*(?:\/\/[^\n]*\n\s*)*(?:readonly )?(\w+|\$schema)\??:\s*([\s\S]*)$/.exec(member) ?? []
    const doc = text
      .replaceAll(/\n\s*\*\s?/g, ' ')
      .replaceAll(/\s+/g, ' ')
      .trim()
    if (name !== '') members.set(name, { doc, type: type.trim() })
    rest = after.slice(end + 1)
  }
  return members
}

/** Where a member ends: at a semicolon or the end of a line, outside of brackets. */
function memberEnd(text: string): number {
  let depth = 0
  let isBegun = false
  for (let at = 0; at < text.length; at++) {
    const letter = text[at] ?? ''
    if ('([{'.includes(letter)) depth += 1
    else if (')]}'.includes(letter)) depth -= 1
    const isLine =
      letter === '\n' && isBegun && !/^\s*[|&]/.test(text.slice(at + 1)) && !/[:|&]\s*$/.test(text.slice(0, at))
    if (depth === 0 && (letter === ';' || isLine)) return at
    if (/\S/.test(letter)) isBegun = true
  }
  return text.length
}
