import type { Identity } from '@gantry/contract'

/** The caller and the tool that need a secret. */
export interface SecretRequest {
  readonly tool: string
  readonly identity: Identity
  readonly signal: AbortSignal
}

/**
 * A source of named secrets; called at the last hop, once per call, for declared names only.
 * - Concurrency: any number of requests at once.
 * - Errors: `undefined` means there is none; a rejection or `undefined` ends the call with SECRET_UNAVAILABLE.
 * - Ownership: the pipeline redacts the value from everything that leaves the call and drops it when the call ends.
 */
export interface SecretSource {
  get(name: string, request: SecretRequest): string | undefined | Promise<string | undefined>
}

/** Letters, digits, `.`, `_` and `-`, as in Docker and Kubernetes; never a path, never a name that starts with `..`. */
const names = /^(?!\.\.|\.$)[A-Za-z0-9._-]{1,253}$/

/** Whether a secret in a file can have this name. */
export function isSecretName(name: string): boolean {
  return names.test(name)
}
