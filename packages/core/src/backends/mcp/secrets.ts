const reference = /(?<![A-Za-z0-9_])secret:([A-Za-z0-9_][A-Za-z0-9_.-]*)/g

/** Puts secrets in the place of their references: `Bearer secret:token` becomes what is to be sent. */
export async function fillSecrets(text: string, secret: (name: string) => Promise<string>): Promise<string> {
  const names = new Set([...text.matchAll(reference)].map((match) => match[1] ?? ''))
  const values = new Map<string, string>()
  for (const name of names) values.set(name, await secret(name))
  return text.replace(reference, (_match, name: string) => values.get(name) ?? '')
}

/** The same for every member of an object of texts. */
export async function fillAll(
  texts: { readonly [name: string]: string },
  secret: (name: string) => Promise<string>,
): Promise<{ readonly [name: string]: string }> {
  const filled: [string, string][] = []
  for (const [name, text] of Object.entries(texts)) filled.push([name, await fillSecrets(text, secret)])
  return Object.fromEntries(filled)
}
