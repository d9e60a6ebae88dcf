import type { SecretSource } from './secret.ts'

/** Secrets from environment variables by an explicit mapping; other variables are never read. */
export function environmentSecrets(
  variables: { readonly [name: string]: string },
  environment: NodeJS.ProcessEnv = process.env,
): SecretSource {
  const known = new Map(Object.entries(variables))
  return {
    get(name) {
      const variable = known.get(name)
      return variable === undefined ? undefined : environment[variable]
    },
  }
}
