import { AsyncLocalStorage } from 'node:async_hooks'
import type { BackendHost } from '@gantry/core/internal/backends/backend'
import { pause } from '@gantry/core/internal/resilience/retry'
import { type Authorizer, createAuthorizer } from './authorizer.ts'
import { programLink } from './program-link.ts'
import { remoteLink } from './remote-link.ts'
import type { Link, Sdk } from './sdk.ts'
import { fillAll, type McpSettings, type RemoteLocation } from './settings.ts'

const shortestHidden = 8

/** Opens links to one server. */
export interface Connector {
  /** Opens a new link. */
  open(sdk: Sdk, signal: AbortSignal): Promise<Link>
  readonly authorizer: Authorizer | undefined
  /** Runs `work` for a tenant: its requests share the egress fairly with those of other tenants to the same origin. */
  workFor<T>(tenant: string, work: () => T): T
}

/** Notifications of a server. */
interface ServerNotifications {
  /** A log line. */
  log(line: string): void
  toolsChanged(): void
}

/** When the links of a connector end. */
interface ConnectorSignals {
  /** Ends with the backend. */
  readonly life: AbortSignal
  /** Aborts when the grace period has passed. */
  readonly kill: AbortSignal
}

export function createConnector(
  settings: McpSettings,
  host: BackendHost,
  signals: ConnectorSignals,
  notifications: ServerNotifications,
): Connector {
  const { name, location, maxResponseBytes } = settings
  if (location.kind === 'remote') return remoteConnector(settings, location, host, signals.life)
  return {
    authorizer: undefined,
    workFor: (_tenant, work) => work(),
    async open(sdk, signal) {
      const secrets: string[] = []
      const env = await fillAll(location.env, async (secret) => {
        const value = await host.secret(secret, signal)
        secrets.push(value)
        return value
      })
      // Environment values without a reference may be secrets too.
      const hidden = [...secrets, ...Object.values(env).filter((value) => value.length >= shortestHidden)]
      return programLink({
        server: name,
        location,
        env,
        hidden,
        maxResponseBytes,
        sdk,
        kill: signals.kill,
        ...notifications,
      })
    },
  }
}

function remoteConnector(
  settings: McpSettings,
  location: RemoteLocation,
  host: BackendHost,
  life: AbortSignal,
): Connector {
  const { name, maxResponseBytes } = settings
  const { url, oauth } = location
  const origins = [url.origin, ...(oauth?.origins ?? [])]
  const own = origins.map((origin) => ({ origin, private: location.private }))
  const scope = { owner: `mcp:${name}`, own, redirects: 0 }
  // All callers share one transport of the SDK, which does not know the tenant of a request.
  const tenants = new AsyncLocalStorage<string>()
  // A tool may be slow before and during its response; the deadline of the call ends it.
  const bounds = { ...scope, only: [url.origin], headersMs: 0, idleMs: 0 }
  const shared = host.egress.fetch(bounds)
  const fetch = spacedGets((input, init) => {
    const tenant = tenants.getStore()
    return (tenant === undefined ? shared : host.egress.fetch({ ...bounds, tenant }))(input, init)
  }, life)
  // With configured origins discovery stays within them, whatever else the egress rules allow.
  const asked = oauth?.origins === undefined ? scope : { ...scope, only: origins }
  const asking = { server: name, url, host, fetch: host.egress.fetch(asked), life }
  const authorizer = oauth === undefined ? undefined : createAuthorizer({ ...asking, oauth })
  return {
    authorizer,
    workFor: (tenant, work) => tenants.run(tenant, work),
    open: async (sdk) => remoteLink({ server: name, location, maxResponseBytes, sdk, host, fetch, authorizer, life }),
  }
}

/** The minimum interval between reopened streams; the first one is reopened at once. */
const gapMs = 1_000

/**
 * Delays the GET requests that reopen streams. A server sets the reconnection time, and with one millisecond the SDK
 * would send hundreds of requests a second for the lifetime of the backend.
 */
export function spacedGets(fetch: typeof globalThis.fetch, life: AbortSignal): typeof globalThis.fetch {
  let recent = Number.NEGATIVE_INFINITY
  let burst = 2
  return async (input, init) => {
    if ((init?.method ?? 'GET').toUpperCase() !== 'GET') return fetch(input, init)
    const now = performance.now()
    if (now - recent >= gapMs) burst = 2
    const waitMs = burst > 0 ? 0 : Math.max(0, recent + gapMs - now)
    burst -= 1
    recent = now + waitMs
    if (waitMs > 0) await pause(waitMs, init?.signal ?? life)
    return fetch(input, init)
  }
}
