/**
 * A JavaScript or TypeScript text of the same length in which comments and what is inside of strings are blank, so that
 * what is found in it is code. Expressions inside of templates stay.
 */
export function maskSource(source: string): string {
  const out: string[] = []
  /** For each template whose expression is open, how many braces are open in it. */
  const templates: number[] = []
  let at = 0
  /** The last character of code, which tells a division from a pattern. */
  let last = '('
  const blank = (end: number, seems: string): void => {
    out.push(source.slice(at, end).replace(/[^\n]/g, ' '))
    at = end
    last = seems
  }
  const template = (): void => {
    const end = endOf(source, at + 1, '`', '${')
    const opens = source.startsWith('${', end - 2)
    blank(end, opens ? '(' : 'x')
    if (opens) templates.push(0)
  }
  while (at < source.length) {
    const character = source[at] ?? ''
    if (source.startsWith('//', at)) blank(endOf(source, at, '\n'), last)
    else if (source.startsWith('/*', at)) blank(endOf(source, at + 2, '*/'), last)
    else if (character === '"' || character === "'") blank(endOf(source, at + 1, character, '\n'), 'x')
    else if (character === '`') template()
    else if (character === '}' && templates.at(-1) === 0) {
      templates.pop()
      template()
    } else if (character === '/' && '(,=:[!&|?{};+-*%<>~^'.includes(last)) blank(endOf(source, at + 1, '/', '\n'), 'x')
    else {
      const depth = templates.length - 1
      const braces = character === '{' ? 1 : character === '}' ? -1 : 0
      if (depth >= 0) templates[depth] = (templates[depth] ?? 0) + braces
      if (character.trim() !== '') last = character
      out.push(character)
      at += 1
    }
  }
  return out.join('')
}

/** Behind the first of these that is not escaped, or the end of the text. */
function endOf(source: string, from: number, ...ends: readonly string[]): number {
  for (let at = from; at < source.length; at += 1) {
    if (source[at] === '\\') at += 1
    else {
      const end = ends.find((each) => source.startsWith(each, at))
      if (end !== undefined) return at + end.length
    }
  }
  return source.length
}
