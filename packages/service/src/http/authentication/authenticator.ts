import type { IncomingHttpHeaders } from 'node:http'
import { type Identity, ToolError } from '@gantry/contract'

/** What a request shows of whoever sent it. Nothing else of it says who that is. */
export interface Presented {
  readonly method: string
  /** As it stands in the request, with its query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /** It was let in before, and its stream is open: what serves once or for a short time was used, the rest must still hold. */
  readonly again?: true
}

/** Who asks. */
export interface Known {
  readonly identity: Identity
  /** The SHA-256 that the body must have, which whoever reads it compares. */
  readonly bodyDigest?: Uint8Array
}

/**
 * Finds out who asks, from one kind of credential.
 * - Answers undefined for a request that shows nothing of this kind, which another one may know.
 * - Errors: rejects with what `unauthenticated` makes when it is of this kind and wrong, whatever is wrong with it, and
 *   with STORE_UNAVAILABLE when that cannot be found out. Nothing that it did not find out is ever taken for granted.
 * - Concurrency: any number of requests at once. Cancellation: the signal ends what waits for others.
 */
export interface Authenticator {
  authenticate(presented: Presented, signal: AbortSignal): Promise<Known | undefined>
}

/** Asks each in turn; whom nobody knows is UNAUTHENTICATED. */
export function anyOf(authenticators: readonly Authenticator[]): {
  authenticate(presented: Presented, signal: AbortSignal): Promise<Known>
} {
  return {
    async authenticate(presented, signal) {
      for (const one of authenticators) {
        const known = await one.authenticate(presented, signal)
        if (known !== undefined) return known
      }
      throw unauthenticated()
    },
  }
}

/** One refusal for everything: what exactly was wrong helps nobody but those who try. */
export function unauthenticated(cause?: unknown): ToolError {
  const message = 'The caller is not known; send Authorization: Bearer with a valid key or token, or a signed request.'
  return new ToolError('UNAUTHENTICATED', message, cause === undefined ? {} : { cause })
}

const bearerForm = /^Bearer +([A-Za-z0-9._~+/=-]{1,8192})$/i

/** The token of an Authorization header, or undefined when there is none that could be one. */
export function bearerOf({ headers: { authorization } }: Presented): string | undefined {
  return authorization === undefined ? undefined : bearerForm.exec(authorization)?.[1]
}

/** Remembers what is true for a time, of so many at most; whoever was remembered first is forgotten first. */
interface Expiring<Value> {
  get(key: string): Value | undefined
  set(key: string, value: Value, ms: number): void
  delete(key: string): void
  clear(): void
}

export function createExpiring<Value>(most: number, now: () => number = () => performance.now()): Expiring<Value> {
  const kept = new Map<string, { readonly value: Value; readonly until: number }>()
  return {
    get(key) {
      const found = kept.get(key)
      if (found === undefined) return undefined
      if (found.until > now()) return found.value
      kept.delete(key)
      return undefined
    },
    set(key, value, ms) {
      kept.delete(key)
      const oldest = kept.size < most ? undefined : kept.keys().next().value
      if (oldest !== undefined) kept.delete(oldest)
      kept.set(key, { value, until: now() + ms })
    },
    delete: (key) => void kept.delete(key),
    clear: () => kept.clear(),
  }
}
