import { hash } from 'node:crypto'
import { canonicalJson } from '@gantry/core/internal/json/canonical'
import type { ConfigDocument } from './config.ts'
import type { ServiceSettings } from './service-settings.ts'

/** Settings of one process or machine, which differ between processes by design. */
const ownSettings: ReadonlySet<string> = new Set([
  ...(['host', 'port', 'hosts', 'tls', 'roles', 'slots', 'labels', 'logLevel', 'graceMs', 'blockedMs'] as const),
  ...(['metricsHost', 'metricsPort', 'connections', 'connectionsPerAddress', 'sharedAddresses'] as const),
] satisfies readonly (keyof ServiceSettings)[])

/**
 * A digest of the plain settings that must be equal in all processes of a service, whatever the form of their file. It is
 * of secrets too, so it is never written anywhere as it is.
 */
export function sharedDigest(document: ConfigDocument): string {
  const { $schema: _schema, databaseUrl: _url, runtimes: _runtimes, runtimeServer: _server, ...rest } = document
  const { service = {}, ...others } = rest
  const kept = Object.entries(service).filter(([key, value]) => !ownSettings.has(key) && value !== undefined)
  // JSON drops undefined members.
  return hash('sha256', canonicalJson(JSON.parse(JSON.stringify({ ...others, service: Object.fromEntries(kept) }))))
}
