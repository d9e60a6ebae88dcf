import { hash, timingSafeEqual } from 'node:crypto'
import { type Authenticator, bearerOf, unauthenticated } from './authenticator.ts'
import type { LiveKeys } from './live-keys.ts'

const form = /^gk_([a-z0-9]{12})_[A-Za-z0-9_-]{43}$/
/** Compared with a key that does not exist, so that it takes as long. */
const blank = Buffer.alloc(32)

/** Authenticates the keys of `gantry keys`, by the id in them; the secret is compared by its digest. */
export function storedKeyAuthenticator(keys: LiveKeys): Authenticator {
  return {
    credential: 'bearer',
    async authenticate(presented) {
      const given = bearerOf(presented)
      const id = given === undefined ? undefined : form.exec(given)?.[1]
      if (given === undefined || id === undefined) return undefined
      const looked = keys.find(id)
      const found = looked instanceof Promise ? await looked : looked
      const same = timingSafeEqual(hash('sha256', given, 'buffer'), found?.digest ?? blank)
      if (!same || found === undefined) throw unauthenticated()
      keys.used(id)
      return found.known
    },
  }
}
