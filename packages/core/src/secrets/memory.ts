import type { SecretSource } from './secret.ts'

/** Secrets given by the host program. */
export function memorySecrets(values: { readonly [name: string]: string }): SecretSource {
  const known = new Map(Object.entries(values))
  return { get: (name) => known.get(name) }
}
