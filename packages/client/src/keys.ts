import type { KeyView, Paged } from '@gantry/contract'
import { type Http, segment } from './http.ts'
import type { Waiting } from './options.ts'

/** A key to be made; it can do no more than its maker. */
export interface KeyOptions extends Waiting {
  readonly name: string
  /** Who calls with it; `key:` and the name when absent. */
  readonly principal?: string | undefined
  /** One's own when absent. */
  readonly tenant?: string | undefined
  readonly permissions?: readonly string[] | undefined
  readonly roles?: readonly string[] | undefined
  /** Patterns of the tools that are there for it. */
  readonly tools?: readonly string[] | undefined
  /** 90 days when absent. */
  readonly expiresMs?: number | undefined
  /** Of an Ed25519 pair, for a key that signs: its 32 bytes in base64url. */
  readonly publicKey?: string | undefined
}

export interface RotateOptions extends Waiting {
  /** How long the old one stays good; a day when absent. */
  readonly overlapMs?: number | undefined
  readonly expiresMs?: number | undefined
  readonly publicKey?: string | undefined
}

export interface RevokeOptions extends Waiting {
  readonly cancelCalls?: boolean | undefined
}

/** A key that was made; `text` is the key itself, shown this once, and absent for one that signs. */
export interface MadeKey {
  readonly key: KeyView
  readonly text?: string
}

/** Keys of the API, for those who hold `gantry:keys`. Nothing of it is sent again by itself but lists. */
export interface Keys {
  /** Newest first; `tenant` may be another one, or `*`, for those who hold `gantry:tenants`. */
  list(
    options?: Waiting & {
      readonly limit?: number | undefined
      readonly cursor?: string | undefined
      readonly tenant?: string | undefined
    },
  ): Promise<Paged<KeyView>>
  create(options: KeyOptions): Promise<MadeKey>
  /** Makes the successor of a key, which itself ends when the overlap is over. */
  rotate(id: string, options?: RotateOptions): Promise<MadeKey>
  /** Ends a key at once; calls of its principal that nobody works on yet are cancelled when `cancelCalls` says so. */
  revoke(id: string, options?: RevokeOptions): Promise<KeyView>
}

export function keysOf(http: Http): Keys {
  const post = async <T>(path: string, { signal, ...body }: Waiting = {}, retries?: number): Promise<T> => {
    const often = retries === undefined ? {} : { retries }
    return (await http.json({ method: 'POST', path, body, signal, ...often })).body as T
  }
  return {
    async list({ signal, ...query } = {}) {
      return (await http.json({ path: '/v1/keys', query, signal })).body as Paged<KeyView>
    },
    // A second key that nobody knows of would be worse than an error.
    create: (options) => post('/v1/keys', options, 0),
    rotate: async (id, options) => post(`/v1/keys/${segment(id)}/rotate`, options, 0),
    revoke: async (id, options) => post(`/v1/keys/${segment(id)}/revoke`, options),
  }
}
