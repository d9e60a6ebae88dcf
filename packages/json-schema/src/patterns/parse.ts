/** A parsed regular expression, without what a boolean match does not need: capture numbers, names and laziness. */
export type Regex =
  | { readonly kind: 'set'; readonly source: string; readonly code: number | undefined }
  | { readonly kind: 'edge'; readonly at: Edge }
  | { readonly kind: 'sequence'; readonly parts: readonly Regex[] }
  | { readonly kind: 'choice'; readonly options: readonly Regex[] }
  | { readonly kind: 'repeat'; readonly body: Regex; readonly min: number; readonly max: number }
  | { readonly kind: 'look'; readonly body: Regex; readonly ahead: boolean; readonly negated: boolean }
  | { readonly kind: 'back' }

/** A position between characters: start or end of the text, a word boundary or none. */
type Edge = 'start' | 'end' | 'word' | 'inner'

const maxNesting = 200

/** Parses a pattern that `RegExp` has accepted; throws a sentence for the few features that cannot be bounded. */
export function parseRegex(source: string, unicode: boolean): Regex {
  return new Parser(source, unicode).choice(0)
}

class Parser {
  readonly #source: string
  readonly #unicode: boolean
  #at = 0

  constructor(source: string, unicode: boolean) {
    this.#source = source
    this.#unicode = unicode
  }

  choice(nesting: number): Regex {
    if (nesting > maxNesting) throw new Error(`has groups nested deeper than ${maxNesting} levels`)
    const first = this.#sequence(nesting)
    const options = [first]
    while (this.#take('|')) options.push(this.#sequence(nesting))
    return options.length === 1 ? first : { kind: 'choice', options }
  }

  #sequence(nesting: number): Regex {
    const parts: Regex[] = []
    while (this.#at < this.#source.length && !this.#looking('|') && !this.#looking(')')) {
      const atom = this.#atom(nesting)
      parts.push(this.#quantified(atom))
    }
    const [first] = parts
    return first !== undefined && parts.length === 1 ? first : { kind: 'sequence', parts }
  }

  #quantified(body: Regex): Regex {
    const bounds = this.#quantifier()
    if (bounds === undefined) return body
    this.#take('?')
    return { kind: 'repeat', body, min: bounds[0], max: bounds[1] }
  }

  #quantifier(): readonly [number, number] | undefined {
    if (this.#take('*')) return [0, Infinity]
    if (this.#take('+')) return [1, Infinity]
    if (this.#take('?')) return [0, 1]
    const braces = this.#match(/\{(\d+)(?:(,)(\d*))?\}/y)
    if (braces === undefined) return undefined
    const min = Number(braces[1])
    return [min, braces[2] === undefined ? min : braces[3] === '' ? Infinity : Number(braces[3])]
  }

  #atom(nesting: number): Regex {
    if (this.#take('^')) return { kind: 'edge', at: 'start' }
    if (this.#take('$')) return { kind: 'edge', at: 'end' }
    if (this.#looking('(')) return this.#group(nesting)
    if (this.#looking('[')) return this.#set(this.#match(/\[\^?(?:\\[\s\S]|[^\]\\])*\]/y))
    if (this.#looking('\\')) return this.#escape()
    if (this.#looking('.')) return this.#set(this.#match(/\./y))
    const literal = this.#match(this.#unicode ? /[\s\S]/uy : /[\s\S]/y)?.[0] ?? ''
    return { kind: 'set', source: literal, code: this.#unicode ? literal.codePointAt(0) : literal.charCodeAt(0) }
  }

  #group(nesting: number): Regex {
    const opening = this.#match(/\((?:\?(?:[:=!]|<[=!]|<[^>]*>))?/y)?.[0] ?? ''
    if (opening === '(' && this.#looking('?')) throw new Error('uses a group that cannot be checked safely')
    const body = this.choice(nesting + 1)
    this.#take(')')
    const look = /^\(\?(<?)([=!])$/.exec(opening)
    return look === null ? body : { kind: 'look', body, ahead: look[1] === '', negated: look[2] === '!' }
  }

  #escape(): Regex {
    if (this.#take('\\b')) return { kind: 'edge', at: 'word' }
    if (this.#take('\\B')) return { kind: 'edge', at: 'inner' }
    if (this.#match(/\\(?:[1-9]\d*|k<[^>]*>)/y)) return { kind: 'back' }
    if (this.#match(/\\0\d|\\c(?![A-Za-z])/y)) throw new Error('uses an escape that cannot be checked safely')
    const long = this.#unicode
      ? /\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[\s\S])/y
      : /\\(?:u[\da-fA-F]{4}|x[\da-fA-F]{2}|c[A-Za-z]|[\s\S])/y
    return this.#set(this.#match(long))
  }

  #set(match: RegExpExecArray | undefined): Regex {
    if (match === undefined) throw new Error('cannot be read')
    return { kind: 'set', source: match[0], code: undefined }
  }

  #looking(text: string): boolean {
    return this.#source.startsWith(text, this.#at)
  }

  #take(text: string): boolean {
    const found = this.#looking(text)
    if (found) this.#at += text.length
    return found
  }

  #match(sticky: RegExp): RegExpExecArray | undefined {
    sticky.lastIndex = this.#at
    const match = sticky.exec(this.#source)
    if (match === null) return undefined
    this.#at = sticky.lastIndex
    return match
  }
}
