import { type Identity, ToolError, type Warning } from '@gantry/contract'
import type { SourceFault } from './backend-sources.ts'
import type { FoundTool } from './backends/inner-doors.ts'
import type { CatalogEntry } from './catalogs/catalog.ts'
import type { Egress, EgressEvent } from './egress/egress.ts'
import type { ExecutorOptions } from './executor-options.ts'
import { lazyEgress } from './lazy-egress.ts'
import { missingPermissions } from './pipeline/authorize.ts'
import type { CallRequest, Ports } from './pipeline/ports.ts'
import type { Policy } from './policies/policy.ts'
import { rules } from './policies/rules.ts'
import { toolScope } from './policies/tool-scope.ts'
import type { RunOptions } from './run-options.ts'
import { memorySecrets } from './secrets/memory.ts'
import type { SecretSource } from './secrets/secret.ts'
import { readTraceparent } from './tracing/traceparent.ts'

export type { FoundTool } from './backends/inner-doors.ts'

/** What a door wants to hear of a call besides its Result. */
export type Hearing = Partial<Pick<CallRequest, 'report' | 'failed' | 'place'>>

export function requestOf(
  tool: string,
  args: unknown,
  given: RunOptions,
  callId: string,
  identity: Identity,
  hear: Hearing | undefined,
): CallRequest {
  return {
    callId,
    tool,
    args,
    identity,
    idempotencyKey: given.idempotencyKey,
    fence: given.fence,
    schemaDigest: given.schemaDigest,
    traceparent: given.traceparent === undefined ? undefined : readTraceparent(given.traceparent),
    origin: given.origin,
    signal: given.signal,
    timeoutMs: given.timeoutMs,
    retry: given.retry,
    onCircuitOpen: given.onCircuitOpen,
    backend: given.backend,
    report: hear?.report ?? given.report,
    writeBack: given.writeBack,
    program: given.program,
    recorded: given.recorded,
    failed: hear?.failed,
    place: hear?.place,
  }
}

export function taken(id: string): ToolError {
  const message = `${id} is registered with another function; use update, or another version.`
  return new ToolError('TOOL_INVALID', message, {
    details: { issues: [{ path: '/run', message: 'is another function' }] },
  })
}

export function closed(): ToolError {
  return new ToolError('BACKEND_UNAVAILABLE', 'The executor is closed.', { retryable: false })
}

/** What of the ports follows from the policy. Discovery shows what the identity may call as far as is known without arguments. */
export function policyPorts(policy: Policy | undefined): Pick<Ports, 'policy' | 'there' | 'visible'> {
  const there = toolScope(policy)
  return {
    policy,
    there,
    visible: (identity, { id, tool }) =>
      there(identity, tool) &&
      missingPermissions(identity, tool).length === 0 &&
      (policy?.visible?.({ identity, id, tool }) ?? true),
  }
}

/** Whether any tool of a backend may be there for an identity; `backend` is its key. */
export function isThereAny({ there }: Pick<Ports, 'there'>, identity: Identity, backend: string): boolean {
  return there(identity, { namespace: backend.slice(backend.indexOf(':') + 1), name: '', version: '' })
}

export function asPolicy(policy: ExecutorOptions['policy']): Policy | undefined {
  if (policy === undefined || 'decide' in policy) return policy
  const { rules: list, ...options } = policy
  return rules(list, options)
}

export function asSecrets(secrets: ExecutorOptions['secrets']): SecretSource {
  if (secrets === undefined) return memorySecrets({})
  return typeof secrets.get === 'function'
    ? (secrets as SecretSource)
    : memorySecrets(secrets as { [name: string]: string })
}

export function foundTool({ key, tool }: CatalogEntry, score: number): FoundTool {
  const title = tool.title === undefined ? {} : { title: tool.title }
  const { version, description, tags = [] } = tool
  return { id: key, version, ...title, description, tags, score }
}

/** A guard of the host's own stays the host's; one made from options belongs to the executor. */
export function asEgress(egress: ExecutorOptions['egress'], onEvent: (event: EgressEvent) => void): Egress {
  if (egress !== undefined && 'request' in egress) return egress
  const given = egress ?? {}
  const own = given.onEvent
  const tell = (event: EgressEvent): void => {
    onEvent(event)
    own?.(event)
  }
  return lazyEgress({ ...given, onEvent: tell })
}

/** Tools that could not be found out are missing from a search, which its reader should know. */
export function missing({ error }: SourceFault): Warning {
  return { code: 'BACKEND_UNAVAILABLE', message: error.message }
}
