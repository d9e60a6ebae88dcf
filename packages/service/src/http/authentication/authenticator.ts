import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import { type Identity, ToolError } from '@gantry/contract'

/** The parts of a request that identify its sender; authentication reads nothing else. */
export interface Presented {
  readonly method: string
  /** The request target, with its query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  /**
   * The request was authenticated before, and its stream is open: nonce and age were checked then, everything else must
   * still hold.
   */
  readonly again?: true
}

/** An authenticated caller. */
export interface Known {
  readonly identity: Identity
  /** The SHA-256 that the body must have; the reader of the body compares it. */
  readonly bodyDigest?: Uint8Array
}

/**
 * Identifies the caller by one kind of credential.
 * - Resolves with undefined for a request without a credential of this kind, which another authenticator may recognise.
 * - Errors: rejects with the error of `unauthenticated` when the credential is wrong in any way, and with
 *   STORE_UNAVAILABLE when that cannot be determined. Nothing is assumed that was not verified.
 * - Concurrency: any number of requests at once. Cancellation: the signal ends waits for other systems.
 */
export interface Authenticator {
  /** The headers that it reads: a signature authenticator runs only for requests with a signature. */
  readonly credential: 'signature' | 'bearer'
  authenticate(presented: Presented, signal: AbortSignal): Promise<Known | undefined>
}

/**
 * The identity of a request; rejects as `Authenticator` does, and with UNAUTHENTICATED for a request that none
 * recognises.
 */
export type Authenticate = (presented: Presented, signal: AbortSignal) => Promise<Known>

/** Asks each authenticator for the credential that the request carries, in order. */
export function anyOf(authenticators: readonly Authenticator[]): { readonly authenticate: Authenticate } {
  return {
    async authenticate(presented, signal) {
      for (const one of authenticators) {
        if (one.credential === 'signature' && !isSigned(presented)) continue
        const known = await one.authenticate(presented, signal)
        if (known !== undefined) return known
      }
      throw unauthenticated()
    },
  }
}

/** As `anyOf`, composed again whenever the settings object changes. */
export function anyOfCurrent<Settings>(
  source: { readonly authentication: Settings },
  compose: (settings: Settings) => readonly Authenticator[],
): Authenticate {
  let settings = source.authentication
  let current = anyOf(compose(settings))
  return (presented, signal) => {
    if (source.authentication !== settings) {
      settings = source.authentication
      current = anyOf(compose(settings))
    }
    return current.authenticate(presented, signal)
  }
}

/** Whether a request carries a signature, or a part of one. */
export function isSigned({ headers }: Presented): boolean {
  return headers.signature !== undefined || headers['signature-input'] !== undefined
}

/** Refuses a request whose credential cannot be looked up, because the database does not answer. */
export function lookupUnavailable(): ToolError {
  const message = 'The database does not answer, so that the credential cannot be checked; try again later.'
  return new ToolError('STORE_UNAVAILABLE', message, { stage: 'admit', details: { retryAfterMs: 1_000 } })
}

/** One error for every refused credential: the exact reason would help only an attacker. */
export function unauthenticated(cause?: unknown): ToolError {
  const message =
    'The request is not authenticated; send Authorization: Bearer with a valid key or token, or a signed request.'
  return new ToolError('UNAUTHENTICATED', message, cause === undefined ? {} : { cause })
}

const bearerForm = /^Bearer +([A-Za-z0-9._~+/=-]{1,8192})$/i

/** The token of an Authorization header; undefined when there is none, or a malformed one. */
export function bearerOf({ headers: { authorization } }: Presented): string | undefined {
  return authorization === undefined ? undefined : bearerForm.exec(authorization)?.[1]
}

/**
 * Authenticates the key of the key file as its owner. Only its digest is kept, and every comparison takes the same
 * time. Any other key may be stored in the database.
 */
export function keyFileAuthenticator(key: string, identity: Identity): Authenticator {
  const kept = hash('sha256', key, 'buffer')
  const known = { identity }
  return {
    credential: 'bearer',
    async authenticate(presented) {
      const given = bearerOf(presented)
      // The length of a key is not secret, and most callers have a key of another form.
      if (given?.length !== key.length) return undefined
      return timingSafeEqual(hash('sha256', given, 'buffer'), kept) ? known : undefined
    },
  }
}

/** A cache whose entries expire; when it is full, the oldest entry is evicted. */
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
