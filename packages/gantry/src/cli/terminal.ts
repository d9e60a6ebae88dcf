/**
 * Characters that move the cursor, hide text or turn its direction; a tool's text may hold them to deceive. DI is what
 * Unicode leaves to no font: selectors, fillers, joiners; U+2800 is a Braille letter without a dot.
 */
const unsafe = /[\p{Cc}\p{Cs}\p{DI}\u2028-\u202e\u2800\ufff9-\ufffb]/gu
const unsafeJson = /[\u007f-\u009f\p{DI}\u2028-\u202e\u2800\ufff9-\ufffb]/gu

/** Foreign text on one line, with control characters escaped. */
export function safeLine(text: string): string {
  return text.replace(unsafe, shown)
}

/** The same, with line breaks and tabs kept. */
export function safeBlock(text: string): string {
  return text
    .replaceAll('\r\n', '\n')
    .replace(unsafe, (found) => (found === '\n' || found === '\t' ? found : shown(found)))
}

/** Equivalent JSON text with control characters escaped. */
export function safeJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, undefined, indent).replace(unsafeJson, (found) =>
    Array.from({ length: found.length }, (_, index) => unicode(found.charCodeAt(index))).join(''),
  )
}

/** A value for display: a string unchanged, everything else as JSON. */
export function safeValue(value: unknown): string {
  return typeof value === 'string' ? safeBlock(value) : safeJson(value, 2)
}

/** At most `width` characters of one line, with a mark when some are missing. */
export function clip(line: string, width: number): string {
  const characters = [...line]
  return characters.length <= width ? line : `${characters.slice(0, Math.max(0, width - 1)).join('')}…`
}

const short: { readonly [character: string]: string } = { '\n': '\\n', '\r': '\\r', '\t': '\\t', '\x1b': '\\e' }

function shown(character: string): string {
  return short[character] ?? `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`
}

function unicode(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, '0')}`
}
