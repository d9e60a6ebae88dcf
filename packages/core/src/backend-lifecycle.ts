import { type Identity, type Json, type Tool, ToolError } from '@gantry/contract'
import type { Backend, BackendHost, BackendReport, Published } from './backends/backend.ts'
import type { Egress } from './egress/egress.ts'
import { createRedactor } from './json/redact.ts'
import { shortestSecret } from './json/secret-forms.ts'
import type { Ports } from './pipeline/ports.ts'
import { backendKey } from './pipeline/registry.ts'
import { fetchSecret, type HeldSecrets } from './pipeline/secrets.ts'
import type { SecretSource } from './secrets/secret.ts'

/** Cut here, after secrets are out, and not by the backends before. */
const longestReport = 10_000

interface HostParts {
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

/** Lets calls end by themselves, then cancels them, then closes the backends. */
export async function shutDown(ports: Ports, graceMs: number): Promise<void> {
  const idle = async (): Promise<void> => {
    await Promise.all(ports.deadlines.waiters().map((run) => run.whenEnded))
  }
  // A call that came in just now is counted once it waits, which takes it no longer than this turn.
  await new Promise((resolve) => setImmediate(resolve))
  if (ports.deadlines.waiters().length > 0) {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, graceMs)
    await Promise.race([idle(), late.promise])
    clearTimeout(timer)
    for (const run of ports.deadlines.waiters()) run.stop(new ToolError('CANCELLED', 'The executor was closed.'))
    await idle()
  }
  await Promise.allSettled(ports.registry.all().map((backend) => closeBackend(backend, graceMs)))
}

/** Lets the calls of one backend end by themselves, then cancels them, then closes it. */
export async function drainBackend(ports: Ports, backend: Backend, graceMs: number): Promise<void> {
  const there = () => ports.deadlines.waiters().filter((run) => run.backend === backend)
  const idle = async (): Promise<void> => {
    await Promise.all(there().map((run) => run.whenEnded))
  }
  // A call that came in just now is counted once it waits, which takes it no longer than this turn.
  await new Promise((resolve) => setImmediate(resolve))
  if (there().length > 0) {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, Math.min(graceMs, 2_147_483_647))
    await Promise.race([idle(), late.promise])
    clearTimeout(timer)
    for (const run of there()) run.stop(new ToolError('CANCELLED', `The backend ${backend.name} was removed.`))
    await idle()
  }
  await closeBackend(backend, graceMs).catch(() => undefined)
}

/** Gives a backend its time to close; one that ignores the signal is left behind. */
async function closeBackend(backend: Backend, graceMs: number): Promise<void> {
  const late = new AbortController()
  const given = Promise.withResolvers<void>()
  const timer = setTimeout(
    () => {
      late.abort(new ToolError('TIMEOUT', `The backend ${backend.name} did not close within ${graceMs} ms.`))
      given.resolve()
    },
    Math.min(graceMs, 2_147_483_647),
  )
  try {
    await Promise.race([backend.close?.(late.signal), given.promise])
  } finally {
    clearTimeout(timer)
  }
}
