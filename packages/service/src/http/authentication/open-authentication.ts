import type { Identity } from '@gantry/contract'
import type { AuthenticationSettings } from '../../config/authentication-settings.ts'
import type { Bus } from '../../observe/bus.ts'
import { createIssuerHealth, type ResponseWatch } from '../../observe/dependency-health.ts'
import type { Database } from '../../storage/databases/database.ts'
import { keyChannel, keyRecords, nonceRecords } from '../../storage/keys/api-keys.ts'
import { startPeriodicJobs } from '../../storage/periodic-jobs.ts'
import { type Authenticate, anyOfCurrent, keyFileAuthenticator } from './authenticator.ts'
import { createLiveKeys } from './live-keys.ts'
import { signedRequestAuthenticator } from './signed-request.ts'
import { storedKeyAuthenticator } from './stored-key.ts'
import { type TokenOptions, tokenAuthenticator } from './token.ts'

interface AuthenticationOptions {
  readonly database: Database
  readonly bus: Bus
  /** The text of the key file, and its owner. */
  readonly key: string
  readonly owner: Identity
  /** `authentication` is another object when the configuration has changed. */
  readonly settings: { readonly authentication: AuthenticationSettings }
  /** Knows when the database does not answer; absent where it is part of this process. */
  readonly health?: ResponseWatch | undefined
  /** The clock of the key cache. */
  readonly now?: () => number
}

/** Authentication of HTTP requests. */
export interface Authentication {
  readonly authenticate: Authenticate
  close(): Promise<void>
}

const everyMs = 60_000

/** Composes the authenticators, again whenever the configuration changes, and follows changes of stored keys. */
export async function openAuthentication(options: AuthenticationOptions): Promise<Authentication> {
  const { database, bus, key, owner, settings, health, now } = options
  const keys = createLiveKeys(keyRecords(database), { now, health })
  const nonces = nonceRecords(database)
  const unlisten = await database.listen(keyChannel, keys.changed)
  const stopJobs = startPeriodicJobs(
    [
      { name: 'used keys', everyMs, work: keys.flush },
      { name: 'used nonces', everyMs, work: nonces.forget },
    ],
    bus,
  )
  const [fromFile, stored] = [keyFileAuthenticator(key, owner), storedKeyAuthenticator(keys)]
  const signedRequest = signedRequestAuthenticator(keys, nonces, { health })
  const issuers = createIssuerHealth(bus)
  const onKeysFetched: TokenOptions['onKeysFetched'] = ({ name }, fault) => issuers.settle(name, fault)
  return {
    authenticate: anyOfCurrent(settings, ({ signed, keys: storedKeys, jwt }) => [
      ...(signed ? [signedRequest] : []),
      fromFile,
      ...(storedKeys ? [stored] : []),
      ...(jwt.length > 0 ? [tokenAuthenticator(jwt, { onKeysFetched })] : []),
    ]),
    async close() {
      await stopJobs()
      await unlisten()
      await keys.flush().catch(() => undefined)
    },
  }
}
