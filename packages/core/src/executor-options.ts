import type { Identity, ProgramLimits } from '@gantry/contract'
import { isObject, isText } from '@gantry/contract/internal/json'
import type { Artifacts } from './artifacts/artifact.ts'
import type { Audit } from './audits/audit.ts'
import type { Backend } from './backends/backend.ts'
import type { Catalog } from './catalogs/catalog.ts'
import type { Embedder } from './catalogs/embeddings.ts'
import type { ChainLimits } from './chain/limits.ts'
import type { WorkEngine } from './chain/work-engine.ts'
import { programLimitsCheck } from './code/limits.ts'
import { createEgress, type Egress, type EgressEvent } from './egress/egress.ts'
import type { EgressOptions } from './egress/options.ts'
import { isIdentity, ownIdentity } from './executor-methods.ts'
import { isFunction } from './json/plain.ts'
import { above0, anObject, callback, flag, having, listOf, type Member, oneOf, part } from './options/option.ts'
import { checkOptions, optionsCheck, refuse } from './options/options.ts'
import type { PinStore } from './pins/pin.ts'
import type { PipelineLimits } from './pipeline/ports.ts'
import type { Approver, Policy } from './policies/policy.ts'
import { type Rule, rules } from './policies/rules.ts'
import { isRuntimes, type LazyRuntimes, type Runtimes } from './runtimes/runtimes.ts'
import type { SafeguardOptions } from './safeguards.ts'
import { memorySecrets } from './secrets/memory.ts'
import type { SecretSource } from './secrets/secret.ts'
import type { DefinedTool } from './tools/tool.ts'
import type { Tracer } from './tracing/tracer.ts'

export type ExecutorLimits = PipelineLimits & {
  readonly chain: Partial<ChainLimits>
  /** Ceilings for the limits of programs over tools. */
  readonly program: ProgramLimits
}

/** Options of an executor; all are optional. */
export interface ExecutorOptions {
  readonly tools?: readonly DefinedTool[]
  /** Closed with the executor. */
  readonly backends?: readonly Backend[]
  /** Without one, every call with the permissions of its tool is allowed. */
  readonly policy?: Policy | { readonly rules: readonly Rule[]; readonly default?: 'allow' | 'deny' | undefined }
  readonly approver?: Approver
  readonly audit?: Audit
  /**
   * The artifact store of callers. With one, files that tools make are stored there; without, they stay in results, and
   * only the tools `files:*` store any, in memory.
   */
  readonly artifacts?: Artifacts
  readonly secrets?: SecretSource | { readonly [name: string]: string }
  /** Egress rules, or a guard, which is shared and closed by the host. */
  readonly egress?: EgressOptions | Egress
  /** Circuit breakers, rate limits and concurrency limits of backends. */
  readonly safeguards?: SafeguardOptions
  /** The trusted definitions of discovered tools; in memory when absent, so none is kept after the process ends. */
  readonly pins?: PinStore
  /** The runtimes of programs, or options for them. The host closes runtimes that it passes. Without any, programs are refused. */
  readonly runtimes?: Runtimes | LazyRuntimes
  /** Engines for chains and programs that name one by the option `engine`. Closed with the executor. */
  readonly engines?: { readonly [name: string]: WorkEngine }
  readonly limits?: Partial<ExecutorLimits>
  /** Identity of calls that set none; by default the owner of this process, with all permissions. */
  readonly identity?: Identity
  readonly catalog?: Catalog
  readonly embedder?: Embedder
  /** Traces calls, their stages and their sandboxes; tracing is off when absent. */
  readonly tracer?: Tracer | undefined
  /**
   * Key of the digests that replace hidden parts of arguments in approvals and in the audit log. Executors with the same
   * key give the same digest for the same text; at least 32 characters, random for each executor when absent.
   */
  readonly redactionKey?: string
  /** Whether `format` in a schema is asserted or an annotation; an annotation by default, as in JSON Schema 2020-12. */
  readonly format?: 'annotate' | 'assert'
  /** Milliseconds since 1970, for the times in results and audit entries; the system clock when absent. */
  readonly now?: (() => number) | undefined
  /**
   * Takes every time and every duration from `now`, for tests; when false or absent, durations are measured. Timeouts are
   * always measured.
   */
  readonly exactNow?: boolean | undefined
  /** Makes the ids of calls, chains and files in memory; each in the form of a UUID, and none twice. Random when absent. */
  readonly ids?: (() => string) | undefined
  /** Source of randomness for retry delays. */
  readonly random?: () => number
}

export const defaultLimits: PipelineLimits = {
  timeoutMs: 30_000,
  maxTimeoutMs: 3_600_000,
  approvalMs: 300_000,
  auditMs: 10_000,
  innerCalls: 1_000,
  innerDepth: 4,
  argsBytes: 1_048_576,
  argsDepth: 64,
  resultBytes: 8_388_608,
  resultDepth: 64,
}

export const localOwner: Identity = ownIdentity({ principal: 'local', tenant: 'local', permissions: ['*'] })

/** Refuses a value that `defineTool` did not return, before a member of it is read. */
export function checkDefinedTool(method: string, tool: unknown): void {
  refuse(`tool of ${method}`, definedTool.issues(tool, '/tool'), 'TOOL_INVALID')
}

/** Refuses a value that is not a backend. */
export function checkBackend(backend: unknown): void {
  refuse('backend of backends.register', aBackend.issues(backend, '/backend'))
}

const definedTool = part((value) => isObject(value) && isObject(value.tool), 'what defineTool returns')
const aBackend = part(
  (value) => isObject(value) && isText(value.kind) && isText(value.name) && isFunction(value.call),
  'a backend with kind, name and call',
)

const limitMembers: { readonly [Key in keyof PipelineLimits]: Member } = {
  timeoutMs: above0,
  maxTimeoutMs: above0,
  approvalMs: above0,
  auditMs: above0,
  innerCalls: above0,
  innerDepth: above0,
  argsBytes: above0,
  argsDepth: above0,
  resultBytes: above0,
  resultDepth: above0,
}

const check = optionsCheck<ExecutorOptions>({
  members: {
    tools: listOf(definedTool),
    backends: listOf(aBackend),
    policy: part(
      (value) => isObject(value) && (isFunction(value.decide) || Array.isArray(value.rules)),
      'a policy with decide, or { rules: [...], default }',
    ),
    approver: having('approve'),
    audit: having('write'),
    artifacts: having('put', 'read'),
    secrets: part(
      (value) => isObject(value) && (isFunction(value.get) || Object.values(value).every(isText)),
      'a secret source with get, or texts by name',
    ),
    egress: part(isObject, 'egress options such as { allow: [...] }, or a guard'),
    safeguards: anObject,
    pins: having('load', 'save'),
    runtimes: part(
      (value) => isObject(value) && (isRuntimes(value) || isFunction(value.get)),
      'what createSandboxes or lazyRuntimes returns',
    ),
    engines: part(
      (value) =>
        isObject(value) &&
        Object.values(value).every((one) => isObject(one) && isFunction(one.chain) && isFunction(one.code)),
      'an object of engines with chain and code',
    ),
    limits: optionsCheck<ExecutorLimits>({
      members: { ...limitMembers, chain: anObject, program: programLimitsCheck },
    }),
    identity: part(isIdentity, 'an identity with principal, tenant and a list of permissions'),
    catalog: having('find'),
    embedder: having('embed'),
    tracer: having('start'),
    redactionKey: { type: 'string', minLength: 32, description: 'a string of at least 32 characters' },
    format: oneOf('annotate', 'assert'),
    now: callback,
    exactNow: flag,
    ids: callback,
    random: callback,
  },
})

/** Throws CONFIG_INVALID for unknown options, parts of the wrong type and invalid limits. */
export function checkExecutorOptions(options: ExecutorOptions): void {
  checkOptions('options of createExecutor', check, options)
}

export function asPolicy(policy: ExecutorOptions['policy']): Policy | undefined {
  if (policy === undefined || 'decide' in policy) return policy
  const { rules: list, ...options } = policy
  return rules(list, options)
}

export function asSecrets(secrets: ExecutorOptions['secrets']): SecretSource {
  if (secrets === undefined) return memorySecrets({})
  return isSecretSource(secrets) ? secrets : memorySecrets(secrets)
}

function isSecretSource(secrets: NonNullable<ExecutorOptions['secrets']>): secrets is SecretSource {
  return typeof secrets.get === 'function'
}

/** The host closes its own guard; the executor closes one made from options. */
export function asEgress(egress: ExecutorOptions['egress'], onEvent: (event: EgressEvent) => void): Egress {
  if (egress !== undefined && 'request' in egress) return egress
  const given = egress ?? {}
  const own = given.onEvent
  const tell = (event: EgressEvent): void => {
    onEvent(event)
    own?.(event)
  }
  return createEgress({ ...given, onEvent: tell })
}
