import { type Identity, type Issue, type ProgramLimits, ToolError } from '@gantry/contract'
import type { Artifacts } from './artifacts/artifact.ts'
import type { Audit } from './audits/audit.ts'
import type { Backend } from './backends/backend.ts'
import type { Catalog } from './catalogs/catalog.ts'
import type { Embedder } from './catalogs/embeddings.ts'
import type { ChainLimits } from './chain/limits.ts'
import { ceilingIssues } from './code/limits.ts'
import type { Egress, EgressEvent } from './egress/egress.ts'
import { lazyEgress } from './egress/lazy-egress.ts'
import type { EgressOptions } from './egress/options.ts'
import { isFunction, isObject, isText } from './json/kinds.ts'
import type { PinStore } from './pins/pin.ts'
import type { PipelineLimits } from './pipeline/ports.ts'
import type { Approver, Policy } from './policies/policy.ts'
import { type Rule, rules } from './policies/rules.ts'
import { isRuntimes, type LazyRuntimes, type Runtimes } from './runtimes/runtimes.ts'
import type { SafeguardOptions } from './safeguards.ts'
import { didYouMean } from './search/near.ts'
import { memorySecrets } from './secrets/memory.ts'
import type { SecretSource } from './secrets/secret.ts'
import type { DefinedTool } from './tools/tool.ts'
import type { Tracer } from './tracing/tracer.ts'

export type ExecutorLimits = PipelineLimits & {
  readonly chain: Partial<ChainLimits>
  /** The most that programs over tools may ask for. */
  readonly program: ProgramLimits
}

/** Everything an executor can be given; all of it may be left out. */
export interface ExecutorOptions {
  readonly tools?: readonly DefinedTool[]
  /** Closed with the executor. */
  readonly backends?: readonly Backend[]
  /** Without one, every call that holds its tool's permissions is allowed. */
  readonly policy?: Policy | { readonly rules: readonly Rule[]; readonly default?: 'allow' | 'deny' | undefined }
  readonly approver?: Approver
  readonly audit?: Audit
  /**
   * Where files of callers are kept. With one, files that tools make go there; without, they stay in results, and only
   * the tools `files:*` keep any, in memory.
   */
  readonly artifacts?: Artifacts
  readonly secrets?: SecretSource | { readonly [name: string]: string }
  /** What may be reached on a network; a guard given ready-made is shared and stays the host's to close. */
  readonly egress?: EgressOptions | Egress
  /** Circuit breakers, rates and numbers at a time before backends. */
  readonly safeguards?: SafeguardOptions
  /** Which definitions of foreign tools are trusted; kept in memory when absent, so from one run to the next nothing is. */
  readonly pins?: PinStore
  /** Where programs run; ready-made runtimes stay the host's to close. Without them programs are refused. */
  readonly runtimes?: Runtimes | LazyRuntimes
  readonly limits?: Partial<ExecutorLimits>
  /** Who calls when a call does not say: by default the owner of this process, who may do everything. */
  readonly identity?: Identity
  readonly catalog?: Catalog
  readonly embedder?: Embedder
  /** Takes note of calls, their stages and their sandboxes; without one nothing is noted. */
  readonly tracer?: Tracer | undefined
  /**
   * Key of the digests that stand for hidden parts of arguments in approvals and in the audit log. Executors with the same
   * key give the same digest for the same text; at least 32 characters, random for each executor when absent.
   */
  readonly redactionKey?: string
  /** Whether `format` in a schema is checked or only noted; noted by default, as JSON Schema 2020-12 says. */
  readonly format?: 'annotate' | 'assert'
  /** Milliseconds since 1970, for the times in results and audit rows; the clock of this machine when absent. */
  readonly now?: (() => number) | undefined
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

/** A frozen copy, so that no tool can give itself rights through the identity it is shown. */
export function ownIdentity({ principal, tenant, permissions, roles, tools }: Identity): Identity {
  return Object.freeze({
    ...{ principal, tenant, permissions: Object.freeze([...permissions]) },
    ...(roles === undefined ? {} : { roles: Object.freeze([...roles]) }),
    ...(tools === undefined ? {} : { tools: Object.freeze([...tools]) }),
  })
}

/** Refuses options nobody reads, parts that are not what they should be and limits that are no limits. */
export function checkOptions(options: ExecutorOptions): void {
  if (!isObject(options)) throw new ToolError('CONFIG_INVALID', 'createExecutor takes an object of options.')
  const issues: Issue[] = []
  for (const [key, value] of Object.entries(options)) {
    const shape = Object.hasOwn(shapes, key) ? shapes[key as keyof ExecutorOptions] : undefined
    if (shape === undefined) issues.push({ path: `/${key}`, message: unknownKey(key, Object.keys(shapes)) })
    else if (value !== undefined && !shape.fits(value))
      issues.push({ path: `/${key}`, message: `must be ${shape.words}` })
  }
  if (isObject(options.limits)) issues.push(...limitIssues(options.limits))
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `createExecutor was given wrong options: ${text}`, { details: { issues } })
}

/** Refuses a value that is not what `defineTool` returns, before a member of it is read. */
export function checkDefinedTool(door: string, tool: unknown): void {
  if (shapes.tools.fits([tool])) return
  const issues = [{ path: '/tool', message: 'must be what defineTool returns' }]
  throw new ToolError('TOOL_INVALID', `${door} was given a wrong tool: /tool must be what defineTool returns.`, {
    details: { issues },
  })
}

/** Refuses a value that is no backend. */
export function checkBackend(backend: unknown): void {
  if (shapes.backends.fits([backend])) return
  const message = 'must be a backend with kind, name and call'
  throw new ToolError('CONFIG_INVALID', `backends.register was given a wrong backend: /backend ${message}.`, {
    details: { issues: [{ path: '/backend', message }] },
  })
}

interface Shape {
  readonly fits: (value: unknown) => boolean
  readonly words: string
}

const shapes: { readonly [Key in keyof Required<ExecutorOptions>]: Shape } = {
  tools: {
    fits: (value) => isListOf(value, (item) => isObject(item.tool)),
    words: 'a list of what defineTool returns',
  },
  backends: {
    fits: (value) => isListOf(value, ({ kind, name, call }) => isText(kind) && isText(name) && isFunction(call)),
    words: 'a list of backends, each with kind, name and call',
  },
  policy: {
    fits: (value) => isObject(value) && (isFunction(value.decide) || Array.isArray(value.rules)),
    words: 'a policy with decide, or { rules: [...], default }',
  },
  approver: { fits: (value) => isObject(value) && isFunction(value.approve), words: 'an object with approve' },
  audit: { fits: (value) => isObject(value) && isFunction(value.write), words: 'an object with write' },
  artifacts: {
    fits: (value) => isObject(value) && isFunction(value.put) && isFunction(value.read),
    words: 'a place for files with put, info, read, list and remove',
  },
  secrets: {
    fits: (value) => isObject(value) && (isFunction(value.get) || Object.values(value).every(isText)),
    words: 'a secret source with get, or texts by name',
  },
  egress: { fits: isObject, words: 'egress options such as { allow: [...] }, or a guard' },
  safeguards: { fits: isObject, words: 'an object of safeguards' },
  pins: {
    fits: (value) => isObject(value) && isFunction(value.load) && isFunction(value.save),
    words: 'a store of pins with load and save',
  },
  runtimes: {
    fits: (value) => isObject(value) && (isRuntimes(value) || isFunction(value.get)),
    words: 'what createSandboxes or lazyRuntimes returns',
  },
  limits: { fits: isObject, words: 'an object of limits' },
  identity: { fits: isIdentity, words: 'an identity with principal, tenant and a list of permissions' },
  catalog: { fits: (value) => isObject(value) && isFunction(value.find), words: 'a catalog' },
  embedder: { fits: (value) => isObject(value) && isFunction(value.embed), words: 'an embedder with id and embed' },
  tracer: { fits: (value) => isObject(value) && isFunction(value.start), words: 'a tracer with start' },
  redactionKey: {
    fits: (value) => isText(value) && (value as string).length >= 32,
    words: 'a text of at least 32 characters',
  },
  format: { fits: (value) => value === 'annotate' || value === 'assert', words: "'annotate' or 'assert'" },
  now: { fits: isFunction, words: 'a function' },
  random: { fits: isFunction, words: 'a function' },
}

function limitIssues(limits: object): Issue[] {
  return Object.entries(limits).flatMap(([key, value]): Issue[] => {
    const path = `/limits/${key}`
    if (key === 'chain') return isObject(value) ? [] : [{ path, message: 'must be an object of limits' }]
    if (key === 'program' && isObject(value)) {
      return ceilingIssues(value).map(({ key, message }) => ({ path: `${path}/${key}`, message }))
    }
    if (!Object.hasOwn(defaultLimits, key)) {
      return [{ path, message: unknownKey(key, [...Object.keys(defaultLimits), 'chain', 'program']) }]
    }
    return value === undefined || isPositive(value) ? [] : [{ path, message: 'must be a number above 0' }]
  })
}

/** Whether a value says who calls. */
export function isIdentity(value: unknown): value is Identity {
  return isObject(value) && isText(value.principal) && isText(value.tenant) && isListOfText(value.permissions)
}

function isListOfText(value: unknown): boolean {
  return Array.isArray(value) && value.every(isText)
}

function isListOf(value: unknown, fits: (item: { readonly [key: string]: unknown }) => boolean): boolean {
  return Array.isArray(value) && value.every((item) => isObject(item) && fits(item))
}

/** Whether a value is a usable limit or time. */
export function isPositive(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && Number.isFinite(value)
}

/** Says that a key is not known, and which one was perhaps meant. */
export function unknownKey(key: string, candidates: readonly string[]): string {
  return `is not an option${didYouMean(key, candidates)}`
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
