import type { Identity, Json, Tool } from '@gantry/contract'
import type { Backend, BackendHost, BackendReport, Published } from './backends/backend.ts'
import type { Egress } from './egress/egress.ts'
import { createRedactor } from './json/redact.ts'
import { shortestSecret } from './json/secret-forms.ts'
import type { HeldSecrets } from './pipeline/held-secrets.ts'
import { backendKey } from './pipeline/registry.ts'
import { fetchSecret } from './pipeline/resolve-secrets.ts'
import type { SecretSource } from './secrets/secret.ts'

/** Cut here, after secrets are out, and not by the backends before. */
const longestReport = 10_000

export interface HostParts {
  readonly egress: Egress
  readonly secrets: SecretSource
  readonly held: HeldSecrets
  readonly publish: (backend: Backend, tools: readonly Tool[]) => Promise<Published>
  readonly report: (backend: string, report: BackendReport) => void
}

/** What one executor offers one of its backends. */
export function createHost(backend: Backend, parts: HostParts): BackendHost {
  const key = backendKey(backend.kind, backend.name)
  const identity: Identity = { principal: `backend:${key}`, tenant: 'local', permissions: [] }
  return {
    egress: parts.egress,
    async secret(name, signal) {
      const value = await fetchSecret(parts.secrets, name, { tool: key, identity, signal })
      parts.held.add(backend, value, 'named')
      return value
    },
    conceal: (value) => {
      if (value.length >= shortestSecret) parts.held.add(backend, value, 'passing')
    },
    publish: (tools) => parts.publish(backend, withoutSecrets(tools, parts.held.of(backend))),
    report: (report) => parts.report(key, { ...report, message: shownText(parts.held, backend, report.message) }),
  }
}

/** A text of a backend without the secrets of its connection, and not too long to be shown. */
export function shownText(held: HeldSecrets, backend: Backend, text: string): string {
  return (held.redactor(backend)?.text(text) ?? text).slice(0, longestReport)
}

/** A server may repeat its credentials in what it says of its tools, which is shown, searched and pinned. */
function withoutSecrets(tools: readonly Tool[], values: readonly string[] | undefined): readonly Tool[] {
  if (values === undefined) return tools
  const redactor = createRedactor({ values, keys: false })
  return tools.map((tool) => redactor.value(tool as unknown as Json) as unknown as Tool)
}
