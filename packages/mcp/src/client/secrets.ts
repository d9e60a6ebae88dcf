import { fetchSecrets, fillSecrets as fill, secretNames } from '@gantry/core/internal/ids/secret-reference'

type Secret = (name: string) => Promise<string>

/** Puts secrets in the place of their references: `Bearer secret:token` becomes what is to be sent. */
export async function fillSecrets(text: string, secret: Secret): Promise<string> {
  return fill(text, await fetchSecrets(secretNames([text]), secret))
}

/** The same for every member of an object of texts. */
export async function fillAll(
  texts: { readonly [name: string]: string },
  secret: Secret,
): Promise<{ readonly [name: string]: string }> {
  const secrets = await fetchSecrets(secretNames(Object.values(texts)), secret)
  return Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, fill(text, secrets)]))
}
