const token = /\/\/[^\n]*|\/\*[\s\S]*?\*\/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|[A-Za-z_][\w.]*|\s+|[^\s]/g
const longestComment = 4_000

/** The comments that stand before methods in `.proto` text, by `package.Service/Method`; the loader drops them. */
export function commentsOfProto(text: string): readonly (readonly [method: string, comment: string])[] {
  const found: [string, string][] = []
  let [scope, service, comment, before] = ['', '', '', '']
  let afterCode = false
  for (const [word] of text.matchAll(token)) {
    if (/^\s/.test(word)) {
      if (word.includes('\n')) afterCode = false
      // An empty line parts a comment from what follows.
      if (word.split('\n').length > 2) comment = ''
      continue
    }
    if (word.startsWith('//') || word.startsWith('/*')) {
      // A comment behind code on the same line belongs to that code.
      if (!afterCode) comment = `${comment}\n${plain(word)}`.trim()
      continue
    }
    if (before === 'package') scope = `${word}.`
    if (before === 'service') service = word
    if (before === 'rpc' && comment !== '') found.push([`${scope}${service}/${word}`, comment.slice(0, longestComment)])
    if (word !== 'rpc') comment = ''
    before = word
    afterCode = true
  }
  return found
}

/** A comment without its slashes and stars. */
function plain(comment: string): string {
  const inner = comment.startsWith('//') ? comment.slice(2) : comment.slice(2, -2)
  return inner
    .split('\n')
    .map((line) => line.replace(/^\s*\*?\s?/, '').trimEnd())
    .join('\n')
    .trim()
}
