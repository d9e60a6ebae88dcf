/** A place in a text that holds a password, known by its shape. */
type PasswordSpan = readonly [start: number, end: number, by: 'shape']

/** Schemes in which a backslash ends the host as a slash does, as every browser and `URL` read them. */
const special = /(?:https?|wss?|ftp|file)$/i
const longestSpecial = 5
const authority = /^[^\s/?#]*/
const specialAuthority = /^[^\s/?#\\]*/

/**
 * The passwords of the URLs in a text, of whatever scheme: from the first colon behind `://` to the last @ before the end
 * of the host, as a URL is read when it is dialled, so that what is left names the host that is meant.
 */
export function urlPasswords(text: string): PasswordSpan[] {
  const found: PasswordSpan[] = []
  for (let at = text.indexOf('://'); at !== -1; at = text.indexOf('://', at + 3)) {
    const start = at + 3
    const isSpecial = special.test(text.slice(Math.max(0, at - longestSpecial), at))
    const [named = ''] = (isSpecial ? specialAuthority : authority).exec(text.slice(start)) ?? []
    const host = named.lastIndexOf('@')
    const colon = named.indexOf(':')
    if (colon !== -1 && colon + 1 < host) found.push([start + colon + 1, start + host, 'shape'])
  }
  return found
}
