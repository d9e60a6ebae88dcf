import type { Identity } from '@gantry/contract'
import type { AuthenticationSettings } from '../../config/authentication-settings.ts'
import type { Bus } from '../../observe/bus.ts'
import type { Database } from '../../storage/databases/database.ts'
import { keyChannel, keyRecords } from '../../storage/keys/api-keys.ts'
import { nonceRecords } from '../../storage/keys/nonces.ts'
import { startChores } from '../../storage/periodic-jobs.ts'
import { anyOf } from './authenticator.ts'
import { createIssuerWatch } from './issuer-health.ts'
import { keyFileAuthenticator } from './key-file.ts'
import { createLiveKeys } from './live-keys.ts'
import { signedRequestAuthenticator } from './signed-request.ts'
import { storedKeyAuthenticator } from './stored-key.ts'
import { tokenAuthenticator } from './token.ts'

export interface AuthenticationOptions {
  readonly database: Database
  readonly bus: Bus
  /** The text of the key file, and whose it is. */
  readonly key: string
  readonly owner: Identity
  /** What the configuration says now. */
  readonly settings: () => AuthenticationSettings
  /** The clock by which keys are remembered. */
  readonly now?: () => number
}

/** Who is let in over HTTP. */
export interface Authentication {
  readonly authenticate: ReturnType<typeof anyOf>['authenticate']
  close(): Promise<void>
}

const everyMs = 60_000

/** Puts the authenticators together, anew whenever the configuration changes, and hears of keys that others change. */
export async function openAuthentication(options: AuthenticationOptions): Promise<Authentication> {
  const { database, bus, key, owner, settings, now } = options
  const keys = createLiveKeys(keyRecords(database), now)
  const nonces = nonceRecords(database)
  const unlisten = await database.listen(keyChannel, keys.changed)
  const stopChores = startChores(
    [
      { name: 'used keys', everyMs, work: keys.flush },
      { name: 'used nonces', everyMs, work: nonces.forget },
    ],
    bus,
  )
  const [fromFile, stored] = [keyFileAuthenticator(key, owner), storedKeyAuthenticator(keys)]
  const signedRequest = signedRequestAuthenticator(keys, nonces)
  const told = createIssuerWatch(bus)
  const compose = (said: AuthenticationSettings) => {
    const tokens = said.jwt.length > 0 ? [tokenAuthenticator(said.jwt, { told })] : []
    const all = [...(said.signed ? [signedRequest] : []), fromFile, ...(said.keys ? [stored] : []), ...tokens]
    return { said, ...anyOf(all) }
  }
  let current = compose(settings())
  return {
    authenticate(presented, signal) {
      const said = settings()
      if (said !== current.said) current = compose(said)
      return current.authenticate(presented, signal)
    },
    async close() {
      await stopChores()
      await unlisten()
      await keys.flush().catch(() => undefined)
    },
  }
}
