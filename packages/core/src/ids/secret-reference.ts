/** `secret:name`, alone or within a text; trailing punctuation is not part of the name. */
const reference = /(?<![A-Za-z0-9_-])secret:([A-Za-z0-9_-]+(?:[./][A-Za-z0-9_-]+)*)/g

/** Values of secrets by name. */
export type Secrets = ReadonlyMap<string, string>

/** The secrets that texts of a configuration refer to, each once. */
export function secretNames(texts: readonly string[]): readonly string[] {
  return [...new Set(texts.flatMap((text) => [...text.matchAll(reference)].map(([, name = '']) => name)))]
}

/** Fetches each secret once, in order; rejects at the first failure. */
export async function fetchSecrets(
  names: readonly string[],
  secret: (name: string) => Promise<string>,
): Promise<Secrets> {
  const secrets = new Map<string, string>()
  for (const name of names) secrets.set(name, await secret(name))
  return secrets
}

/** A text with its references replaced by secrets; references inside a secret are not expanded. */
export function fillSecrets(text: string, secrets: Secrets): string {
  return secrets.size === 0 ? text : text.replace(reference, (whole, name: string) => secrets.get(name) ?? whole)
}
