const unsafe = /[^\x20-\x7e]/gu

/** Untrusted text for a message: short, quoted, with everything but printable ASCII escaped. */
export function quote(text: string, limit = 80): string {
  const shown = text.length > limit ? text.slice(0, limit) : text
  const escaped = JSON.stringify(shown).replace(unsafe, codePoint)
  return text.length > limit ? `${escaped}… (${text.length} characters)` : escaped
}

/** Names one character without showing it: `U+202E`. */
export function codePoint(character: string): string {
  const code = character.codePointAt(0) ?? 0
  return `U+${code.toString(16).toUpperCase().padStart(4, '0')}`
}

/** Truncates a text for a message. */
export function clip(text: string, most = 200): string {
  return text.length > most ? `${text.slice(0, most)}…` : text
}
