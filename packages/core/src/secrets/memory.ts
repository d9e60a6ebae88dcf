import type { SecretSource } from './secret.ts'

/** Secrets from values in memory. */
export function memorySecrets(values: { readonly [name: string]: string }): SecretSource {
  const known = new Map(Object.entries(values))
  return { get: (name) => known.get(name) }
}
