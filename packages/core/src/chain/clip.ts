/** Text to quote in a message, cut where it gets too long to read. */
export function clip(text: string, most = 200): string {
  return text.length > most ? `${text.slice(0, most)}…` : text
}
