import type { SecretSource } from './secret.ts'
import { readSecret } from './store.ts'
import { Vault, type VaultOptions } from './vault.ts'

/**
 * Secrets from an encrypted file of `gantry secrets` or `openSecretStore`. The file is read on first use and again when it
 * has changed; a wrong key, a modified file and a missing file are errors, never an empty result.
 */
export function encryptedSecrets(options: VaultOptions): SecretSource {
  const vault = new Vault(options)
  return { get: (name) => readSecret(vault, name) }
}
