import { hash, timingSafeEqual } from 'node:crypto'
import type { Identity } from '@gantry/contract'
import { type Authenticator, bearerOf } from './authenticator.ts'

/**
 * Knows the one key that stands in the key file, and whose it is. Only its digest is kept, and all comparisons take the
 * same time. A key that is not this one may be somebody else's.
 */
export function keyFileAuthenticator(key: string, identity: Identity): Authenticator {
  const kept = hash('sha256', key, 'buffer')
  const known = { identity }
  return {
    async authenticate(presented) {
      const given = bearerOf(presented)
      // How long a key is, is no secret, and most callers have one of another form.
      if (given?.length !== key.length) return undefined
      return timingSafeEqual(hash('sha256', given, 'buffer'), kept) ? known : undefined
    },
  }
}
