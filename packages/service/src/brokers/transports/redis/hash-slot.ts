/**
 * The name of a key that stands on the same server of a cluster as another one: servers are chosen by what is between the
 * first braces of a name, if it is anything, else by the whole of it.
 */
export function besideKey(key: string, suffix: string): string {
  const open = key.indexOf('{')
  const close = open < 0 ? -1 : key.indexOf('}', open)
  return close > open + 1 ? `${key}${suffix}` : `{${key}}${suffix}`
}
