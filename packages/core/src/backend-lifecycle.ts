import { type Identity, type Json, type Tool, ToolError } from '@gantry/contract'
import type { Backend, BackendHost, BackendReport, Published } from './backends/backend.ts'
import type { Egress } from './egress/egress.ts'
import { createRedactor } from './json/redact.ts'
import { shortestSecret } from './json/secret-forms.ts'
import { type ConnectionSecrets, fetchSecret } from './pipeline/context.ts'
import type { Ports } from './pipeline/ports.ts'
import { backendKey } from './pipeline/resolve.ts'
import { within } from './resilience/abort.ts'
import type { SecretSource } from './secrets/secret.ts'

/** Messages of backends are truncated here, after redaction. */
const longestReport = 10_000

interface HostParts {
  readonly egress: Egress
  readonly secrets: SecretSource
  readonly connectionSecrets: ConnectionSecrets
  readonly publish: (backend: Backend, tools: readonly Tool[]) => Promise<Published>
  readonly report: (backend: string, report: BackendReport) => void
}

/** The host interface that an executor gives to one backend. */
export function createHost(backend: Backend, parts: HostParts): BackendHost {
  const key = backendKey(backend.kind, backend.name)
  const identity: Identity = { principal: `backend:${key}`, tenant: 'local', permissions: [] }
  return {
    egress: parts.egress,
    async secret(name, signal) {
      const value = await fetchSecret(parts.secrets, name, { tool: key, identity, signal })
      parts.connectionSecrets.add(backend, value, 'named')
      return value
    },
    conceal: (value) => {
      if (value.length >= shortestSecret) parts.connectionSecrets.add(backend, value, 'passing')
    },
    publish: (tools) => parts.publish(backend, withoutSecrets(tools, parts.connectionSecrets.of(backend))),
    report: (report) =>
      parts.report(key, { ...report, message: shownText(parts.connectionSecrets, backend, report.message) }),
  }
}

/** A text of a backend, redacted and truncated. */
export function shownText(secrets: ConnectionSecrets, backend: Backend, text: string): string {
  return (secrets.redactor(backend)?.text(text) ?? text).slice(0, longestReport)
}

/** Redacts a tool definition, because a server may repeat its credentials in it. */
function withoutSecrets(tools: readonly Tool[], values: readonly string[] | undefined): readonly Tool[] {
  if (values === undefined) return tools
  const redactor = createRedactor({ values, keys: false })
  return tools.map((tool) => redactor.value(tool as unknown as Json) as unknown as Tool)
}

/** Waits for running calls, cancels those that outlast the grace period, then closes the backends. */
export async function shutDown(ports: Ports, graceMs: number): Promise<void> {
  const idle = async (): Promise<void> => {
    await Promise.all(ports.deadlines.waiters().map((run) => run.whenEnded))
  }
  // A call that came in just now is counted once it waits, which takes it no longer than this turn.
  await new Promise((resolve) => setImmediate(resolve))
  if (ports.deadlines.waiters().length > 0) {
    await within(graceMs, idle(), () => undefined)
    for (const run of ports.deadlines.waiters()) run.stop(new ToolError('CANCELLED', 'The executor was closed.'))
    await idle()
  }
  await Promise.allSettled(ports.registry.all().map((backend) => closeBackend(backend, graceMs)))
}

/** Waits for the running calls of one backend, cancels those that outlast the grace period, then closes it. */
export async function drainBackend(ports: Ports, backend: Backend, graceMs: number): Promise<void> {
  const there = () => ports.deadlines.waiters().filter((run) => run.backend === backend)
  const idle = async (): Promise<void> => {
    await Promise.all(there().map((run) => run.whenEnded))
  }
  // A call that came in just now is counted once it waits, which takes it no longer than this turn.
  await new Promise((resolve) => setImmediate(resolve))
  if (there().length > 0) {
    await within(graceMs, idle(), () => undefined)
    for (const run of there()) run.stop(new ToolError('CANCELLED', `The backend ${backend.name} was removed.`))
    await idle()
  }
  await closeBackend(backend, graceMs).catch(() => undefined)
}

/** Closes a backend within the grace period. A backend that ignores the signal is not awaited further. */
async function closeBackend(backend: Backend, graceMs: number): Promise<void> {
  const late = new AbortController()
  const close = async () => backend.close?.(late.signal)
  await within(graceMs, close(), () =>
    late.abort(new ToolError('TIMEOUT', `The backend ${backend.name} did not close within ${graceMs} ms.`)),
  )
}
