import type { SecretSource } from './secret.ts'
import { readSecret } from './store.ts'
import { Vault, type VaultOptions } from './vault.ts'

/**
 * Secrets from an encrypted file that `gantry secrets` or `openSecretStore` keeps. Read when first asked for and again
 * when it has changed; a wrong key, a changed file and a missing one are errors, never an empty answer.
 */
export function encryptedSecrets(options: VaultOptions): SecretSource {
  const vault = new Vault(options)
  return { get: (name) => readSecret(vault, name) }
}
