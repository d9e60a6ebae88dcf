import type { Identity, Issue } from '@gantry/contract'
import { ToolError } from '@gantry/contract'
import type { Audit } from './audits/audit.ts'
import type { Backend } from './backends/backend.ts'
import type { Catalog } from './catalogs/catalog.ts'
import type { Embedder } from './catalogs/embedder.ts'
import type { ChainLimits } from './chain/limits.ts'
import type { PipelineLimits } from './pipeline/ports.ts'
import type { Approver, Policy } from './policies/policy.ts'
import type { Rule } from './policies/rules.ts'
import { nearest } from './search/near.ts'
import type { SecretSource } from './secrets/secret.ts'
import type { DefinedTool } from './tools/tool.ts'

export type ExecutorLimits = PipelineLimits & { readonly chain: Partial<ChainLimits> }

/** Everything an executor can be given; all of it may be left out. */
export interface ExecutorOptions {
  readonly tools?: readonly DefinedTool[]
  /** Closed with the executor. */
  readonly backends?: readonly Backend[]
  /** Without one, every call that holds its tool's permissions is allowed. */
  readonly policy?: Policy | { readonly rules: readonly Rule[]; readonly default?: 'allow' | 'deny' }
  readonly approver?: Approver
  readonly audit?: Audit
  readonly secrets?: SecretSource | { readonly [name: string]: string }
  readonly limits?: Partial<ExecutorLimits>
  /** Who calls when a call does not say: by default the owner of this process, who may do everything. */
  readonly identity?: Identity
  readonly catalog?: Catalog
  readonly embedder?: Embedder
  /** Whether `format` in a schema is checked or only noted; noted by default, as JSON Schema 2020-12 says. */
  readonly format?: 'annotate' | 'assert'
  /** Source of randomness for retry delays. */
  readonly random?: () => number
}

const known = [
  ...['tools', 'backends', 'policy', 'approver', 'audit', 'secrets', 'limits', 'identity', 'catalog', 'embedder'],
  ...['format', 'random'],
]

export const defaultLimits: PipelineLimits = {
  timeoutMs: 30_000,
  maxTimeoutMs: 3_600_000,
  approvalMs: 300_000,
  auditMs: 10_000,
  argsBytes: 1_048_576,
  argsDepth: 64,
  resultBytes: 4_194_304,
  resultDepth: 64,
}

export const localOwner: Identity = Object.freeze({ principal: 'local', tenant: 'local', permissions: ['*'] })

/** Refuses options nobody reads and limits that are no limits, before anything starts. */
export function checkOptions(options: ExecutorOptions): void {
  const issues: Issue[] = []
  for (const key of Object.keys(options)) {
    if (!known.includes(key)) issues.push({ path: `/${key}`, message: unknownKey(key, known) })
  }
  const limits = options.limits ?? {}
  for (const [key, value] of Object.entries(limits)) {
    const path = `/limits/${key}`
    if (key === 'chain') continue
    if (!(key in defaultLimits))
      issues.push({ path, message: unknownKey(key, [...Object.keys(defaultLimits), 'chain']) })
    else if (value !== undefined && !isPositive(value)) issues.push({ path, message: 'must be a number above 0' })
  }
  if (issues.length === 0) return
  const text = issues.map(({ path, message }) => `${path} ${message}`).join('; ')
  throw new ToolError('CONFIG_INVALID', `createExecutor was given wrong options: ${text}.`, { details: { issues } })
}

/** Whether a value is a usable limit or time. */
export function isPositive(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && Number.isFinite(value)
}

function unknownKey(key: string, candidates: readonly string[]): string {
  const [near] = nearest(key, candidates, { limit: 1 })
  return near === undefined ? 'is not an option' : `is not an option; did you mean ${near}?`
}
