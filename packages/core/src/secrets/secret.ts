import type { Identity } from '@gantry/contract'

/** Who needs a secret, and for what. */
export interface SecretRequest {
  readonly tool: string
  readonly identity: Identity
  readonly signal: AbortSignal
}

/**
 * Where the value of a named secret comes from; asked at the last hop, once per call, for declared names only.
 * - Concurrency: any number of requests at once.
 * - Errors: `undefined` means there is none; a rejection or `undefined` ends the call with SECRET_UNAVAILABLE.
 * - Ownership: the pipeline redacts the value from everything that leaves the call and keeps it no longer.
 */
export interface SecretSource {
  get(name: string, request: SecretRequest): string | undefined | Promise<string | undefined>
}

/** Letters, digits, `.`, `_` and `-`, as Docker and Kubernetes name theirs; never a path, never `..` or what begins so. */
const names = /^(?!\.\.|\.$)[A-Za-z0-9._-]{1,253}$/

/** Whether a secret that is kept in a file can have this name. */
export function isSecretName(name: string): boolean {
  return names.test(name)
}
