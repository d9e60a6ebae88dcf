import type { Identity } from '@gantry/contract'
import type { AuthenticationSettings } from '../../config/authentication-settings.ts'
import type { Bus } from '../../observe/bus.ts'
import type { Database } from '../../storage/databases/database.ts'
import { keyChannel, keyRecords } from '../../storage/keys/api-keys.ts'
import { nonceRecords } from '../../storage/keys/nonces.ts'
import { startPeriodicJobs } from '../../storage/periodic-jobs.ts'
import { anyOf } from './authenticator.ts'
import { keyFileAuthenticator } from './key-file.ts'
import { createLiveKeys } from './live-keys.ts'
import { signedRequestAuthenticator } from './signed-request.ts'
import { storedKeyAuthenticator } from './stored-key.ts'
import { type TokenOptions, tokenAuthenticator } from './token.ts'

interface AuthenticationOptions {
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
  const stopChores = startPeriodicJobs(
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

/** Tells when the keys of an issuer cannot be had any more and when they can again, each once, whatever is read again. */
export function createIssuerWatch(bus: Bus, now: () => number = performance.now.bind(performance)): Told {
  const downSince = new Map<string, number>()
  return ({ name }, fault) => {
    const since = downSince.get(name)
    if (fault === undefined) {
      downSince.delete(name)
      if (since !== undefined) bus.emit('issuer:up', { issuer: name, downMs: Math.round(now() - since) })
    } else if (since === undefined) {
      downSince.set(name, now())
      bus.emit('issuer:down', { issuer: name, reason: fault })
    }
  }
}

type Told = NonNullable<TokenOptions['told']>
