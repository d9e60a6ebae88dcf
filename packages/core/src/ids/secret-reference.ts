/** `secret:name`, alone or within a text; the name ends where a sentence would go on. */
const reference = /(?<![A-Za-z0-9_-])secret:([A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*)/g

/** Values of secrets by name. */
export type Secrets = ReadonlyMap<string, string>

/** The secrets that texts of a configuration refer to, each once. */
export function secretNames(texts: readonly string[]): readonly string[] {
  return [...new Set(texts.flatMap((text) => [...text.matchAll(reference)].map(([, name = '']) => name)))]
}

/** Asks for each secret once, in turn; rejects with the first that is missing. */
export async function fetchSecrets(
  names: readonly string[],
  secret: (name: string) => Promise<string>,
): Promise<Secrets> {
  const secrets = new Map<string, string>()
  for (const name of names) secrets.set(name, await secret(name))
  return secrets
}

/** A text with its secrets put in; what they hold is not searched for references again. */
export function fillSecrets(text: string, secrets: Secrets): string {
  return secrets.size === 0 ? text : text.replace(reference, (whole, name: string) => secrets.get(name) ?? whole)
}
