/** The base of a schema that has no `$id`; relative references in it resolve to themselves. */
export const rootUri = 'gantry:///schema'

/** A reference made absolute, or undefined when it is no URI reference. */
export function resolveUri(reference: string, base: string): string | undefined {
  if (reference.startsWith('#')) return base + reference
  return URL.parse(reference, base)?.href
}

/** A URI and its decoded fragment. */
export function splitUri(uri: string): readonly [uri: string, fragment: string] {
  const hash = uri.indexOf('#')
  if (hash < 0) return [uri, '']
  try {
    return [uri.slice(0, hash), decodeURIComponent(uri.slice(hash + 1))]
  } catch {
    return [uri.slice(0, hash), uri.slice(hash + 1)]
  }
}
