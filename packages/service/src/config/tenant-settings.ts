import type { JsonSchema } from '@gantry/contract'
import type { TenantLimits } from './tenant-limits.ts'

/** What is set for one tenant, or under `*` for all those that are not named. */
export interface TenantSettings extends TenantLimits {
  /** Patterns of the tools that are there for it; all of them when absent. */
  readonly tools?: readonly string[]
}

export type TenantsSettings = { readonly [tenant: string]: TenantSettings }

const positive = { type: 'number', exclusiveMinimum: 0, maximum: 1e9 }
const count = { type: 'integer', minimum: 1, maximum: 1_000_000 }

/** What can be limited for a tenant and for a principal alike. */
const limits: { readonly [name: string]: JsonSchema } = {
  rate: {
    type: 'object',
    properties: { perSecond: positive, burst: { type: 'integer', minimum: 1, maximum: 1e9 } },
    required: ['perSecond'],
    additionalProperties: false,
  },
  concurrency: count,
  queued: count,
  stored: {
    type: 'object',
    properties: {
      bytes: { type: 'integer', minimum: 0, maximum: 1e15 },
      files: { type: 'integer', minimum: 0, maximum: 1e9 },
    },
    minProperties: 1,
    additionalProperties: false,
  },
  cost: {
    type: 'object',
    properties: {
      budget: { type: 'integer', minimum: 1, maximum: 1e9 },
      everyMs: { type: 'integer', minimum: 1, maximum: 31 * 86_400_000 },
    },
    required: ['budget', 'everyMs'],
    additionalProperties: false,
  },
}

/** The part of the schema of configurations that is about tenants. */
export const tenantsSchema: JsonSchema = {
  type: 'object',
  propertyNames: { minLength: 1, maxLength: 200 },
  additionalProperties: {
    type: 'object',
    properties: {
      tools: { type: 'array', items: { type: 'string' }, minItems: 1 },
      ...limits,
      weight: { type: 'number', minimum: 0.001, maximum: 1_000 },
      principals: {
        type: 'object',
        propertyNames: { minLength: 1, maxLength: 400 },
        additionalProperties: { type: 'object', properties: limits, additionalProperties: false },
      },
    },
    additionalProperties: false,
  },
}

/** What a checked configuration says of tenants. */
export function tenantsOf(tenants: unknown): TenantsSettings {
  return typeof tenants === 'object' && tenants !== null ? (tenants as TenantsSettings) : {}
}

/** Tools by tenant, for those of whom anything is said; undefined when nothing is. */
export function toolsByTenant(tenants: TenantsSettings): { readonly [tenant: string]: readonly string[] } | undefined {
  const said = Object.entries(tenants).flatMap(([tenant, { tools }]) => (tools === undefined ? [] : [[tenant, tools]]))
  return said.length === 0 ? undefined : Object.fromEntries(said)
}
