/** What a piece of code is; each is a class of the style sheet. */
type Kind = 'comment' | 'string' | 'number' | 'word' | 'name'

type Rule = readonly [kind: Kind, pattern: string]

const quoted: Rule = ['string', String.raw`"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'`]
const number: Rule = ['number', String.raw`\b\d[\d_]*(?:\.\d+)?\b`]
const hash: Rule = ['comment', String.raw`(?<![^\s])#[^\n]*`]

const script: readonly Rule[] = [
  ['comment', String.raw`\/\/[^\n]*|\/\*[\s\S]*?\*\/`],
  ['string', String.raw`\x60(?:[^\x60\\]|\\.)*\x60`],
  quoted,
  [
    'word',
    String.raw`\b(?:as|async|await|break|case|catch|class|const|continue|default|else|export|extends|false|finally|for|from|function|if|import|in|interface|let|new|null|of|readonly|return|satisfies|switch|throw|true|try|type|typeof|undefined|while|yield)\b`,
  ],
  number,
]
const json: readonly Rule[] = [
  ['name', String.raw`"(?:[^"\\\n]|\\.)*"(?=\s*:)`],
  quoted,
  ['word', String.raw`\b(?:true|false|null)\b`],
  number,
]
const yaml: readonly Rule[] = [
  hash,
  ['name', String.raw`[\w$.-]+(?=\s*:(?:\s|$))`],
  quoted,
  ['word', String.raw`\b(?:true|false|null)\b`],
  number,
]
const shell: readonly Rule[] = [
  hash,
  ['string', String.raw`"(?:[^"\\]|\\.)*"|'[^']*'`],
  ['name', String.raw`(?<=^|\n|[|;&(]\s*)(?:[A-Z_]+=\S* )*[a-z][\w.-]*`],
  ['word', String.raw`(?<=\s)--?[a-zA-Z][\w-]*`],
]
const python: readonly Rule[] = [
  hash,
  ['string', String.raw`"""[\s\S]*?"""`],
  quoted,
  [
    'word',
    String.raw`\b(?:and|as|async|await|break|class|continue|def|elif|else|except|False|finally|for|from|if|import|in|is|lambda|None|not|or|pass|raise|return|True|try|while|with|yield)\b`,
  ],
  number,
]

const languages: { readonly [language: string]: readonly Rule[] } = {
  ...{ ts: script, typescript: script, js: script, javascript: script, mjs: script, tsx: script },
  ...{ json, jsonc: json, yaml, yml: yaml, sh: shell, bash: shell, console: shell, python, py: python },
}

/** Code as HTML, coloured when the language is known. */
export function highlighted(code: string, language: string): string {
  const rules = Object.hasOwn(languages, language) ? languages[language] : undefined
  if (rules === undefined) return escapeHtml(code)
  const pattern = new RegExp(rules.map(([, source]) => `(${source})`).join('|'), 'g')
  let html = ''
  let end = 0
  for (const match of code.matchAll(pattern)) {
    const rule = rules[match.slice(1).findIndex((group) => group !== undefined)]
    html += escapeHtml(code.slice(end, match.index))
    html += `<span class="hl-${rule?.[0] ?? 'name'}">${escapeHtml(match[0])}</span>`
    end = match.index + match[0].length
  }
  return html + escapeHtml(code.slice(end))
}

export function escapeHtml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
