/** Anything may be quoted in a text, and SQL cannot hold all of it. */
export function storable(text: string): string {
  return text.replaceAll('\0', '\ufffd').toWellFormed()
}
