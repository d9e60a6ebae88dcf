const strings = [
  String.raw`'(?:\\[\s\S]|[^'\\\n])*'`,
  String.raw`"(?:\\[\s\S]|[^"\\\n])*"`,
  '`(?:\\\\[\\s\\S]|[^\\\\`])*`',
]
const comments = [String.raw`\/\/.*`, String.raw`\/\*[\s\S]*?\*\/`]
const statement = String.raw`(?<=^|[\n;}])[ \t]*`
const imported = [
  String.raw`${statement}import\b(?<clause>[\w\s$*,{}]*?)(?<from>\bfrom\s*)?(?<source>'[^'\n]+'|"[^"\n]+")`,
  String.raw`(?:\s*with\s*(?<attributes>\{[^}]*\}))?`,
].join('')
const exported = String.raw`${statement}export\s+(?:default\b)?`
const called = String.raw`(?<![.\w$#])import(?=\s*\()`
const places = new RegExp([imported, exported, ...comments, ...strings, called].join('|'), 'g')

/**
 * Makes code with module syntax fit for a function or a cell, line by line: static imports become awaited ones, `export`
 * goes, and `import(…)` is done by `call`.
 * It knows strings and comments but not all of JavaScript, so it serves only where a real module cannot: beside `return`,
 * in cells, and to find the line of an error.
 */
export function looseImports(code, call = 'import') {
  return code.replace(places, (text, ...rest) => {
    const found = rest.at(-1)
    if (found.source !== undefined) return looseImport(text, found, call)
    if (text === 'import') return call
    return /^\s*export\s/.test(text) ? text.replace(/\S/g, ' ') : text
  })
}

function looseImport(text, { clause, from, source, attributes }, call) {
  const loaded = `await ${call}(${source}${attributes === undefined ? '' : `, { with: ${attributes} }`})`
  const lines = '\n'.repeat(text.split('\n').length - 1)
  if (from === undefined) return `${loaded};${lines}`
  if (/^\s*type\s+(?!,|from\b)/.test(clause)) return `;${lines}`
  const [, whole, all, named = ''] = /^\s*([\w$]+)?\s*,?\s*(?:\*\s*as\s+([\w$]+)|\{([^}]*)\})?\s*$/.exec(clause) ?? []
  const members = named
    .split(',')
    .map((member) => member.trim().replace(/\s+as\s+/, ': '))
    .filter((member) => member !== '' && !/^type\s/.test(member))
  if (whole !== undefined) members.unshift(`default: ${whole}`)
  if (all === undefined) return `const { ${members.join(', ')} } = ${loaded};${lines}`
  return `const ${all} = ${loaded}${whole === undefined ? '' : `, { default: ${whole} } = ${all}`};${lines}`
}
