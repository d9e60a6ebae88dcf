import type { Identity } from '@gantry/contract'
import { anyOf } from '../authenticators/authenticator.ts'
import { keyFileAuthenticator } from '../authenticators/key-file.ts'
import { createLiveKeys } from '../authenticators/live-keys.ts'
import { signedRequestAuthenticator } from '../authenticators/signed-request.ts'
import { storedKeyAuthenticator } from '../authenticators/stored-key.ts'
import { tokenAuthenticator } from '../authenticators/token.ts'
import type { AuthenticationSettings } from '../config/authentication-settings.ts'
import type { Database } from '../databases/database.ts'
import { keyChannel, keyRecords } from '../records/api-keys.ts'
import { nonceRecords } from '../records/nonces.ts'
import type { Bus } from '../stores/bus.ts'
import { startChores } from './chores.ts'
import { createIssuerWatch } from './issuer-watch.ts'

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
