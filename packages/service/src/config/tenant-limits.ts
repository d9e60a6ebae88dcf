import type { JsonSchema } from '@gantry/contract'

/** What one may use at most; what is absent is not limited. */
export interface Limits {
  /** Calls that are taken in; `burst` at once after a rest, as many as in a second when absent. */
  readonly rate?: { readonly perSecond: number; readonly burst?: number }
  /** Calls that are held by workers at a time. */
  readonly concurrency?: number
  /** Calls that wait. */
  readonly queued?: number
  /** Units that tools say they cost: so many at once after a rest, and so many again in `everyMs`. */
  readonly cost?: { readonly budget: number; readonly everyMs: number }
  /** Files that are stored at a time. */
  readonly stored?: { readonly bytes?: number; readonly files?: number }
}

/** What a tenant may use, and each of its principals; under `*` those who are not named. */
export interface TenantLimits extends Limits {
  /** Twice the weight is twice the calls in hand while others wait too; 1 when absent. */
  readonly weight?: number
  readonly principals?: { readonly [principal: string]: Limits }
}

/** By tenant; what is under `*` holds for everybody who is not given something else. */
export type TenantsLimits = { readonly [tenant: string]: TenantLimits }

/** How much may be stored at a time, of one tenant or principal. */
interface StoredQuota {
  readonly bytes: number
  readonly files: number
}

/** What holds for the owner of a file. */
export type StoredQuotas = (owner: { readonly tenant: string; readonly principal: string }) => {
  readonly tenant: StoredQuota
  readonly principal: StoredQuota
}

/** What holds for a tenant: its own words, and for what they leave open, also of a principal, those for all. */
export function limitsOf(tenants: TenantsLimits, tenant: string): TenantLimits {
  const [own, all] = [ownOf(tenants, tenant), ownOf(tenants, '*')]
  const { principals = {} } = own
  const { principals: others = {} } = all
  const names = [...new Set([...Object.keys(others), ...Object.keys(principals)])]
  if (names.length === 0) return { ...all, ...own }
  const both = names.map((name) => [name, { ...ownOf(others, name), ...ownOf(principals, name) }])
  return { ...all, ...own, principals: Object.fromEntries(both) }
}

/** What holds for a principal of a tenant, in the same way. */
export function principalLimits({ principals = {} }: TenantLimits, principal: string): Limits {
  return { ...ownOf(principals, '*'), ...ownOf(principals, principal) }
}

/** What a tenant may have stored when nothing is configured; a principal half of what its tenant may. */
const defaultStored: StoredQuota = { bytes: 10_737_418_240, files: 1_000_000 }

/** The quotas for stored files of an owner. */
export function storedQuotas(tenants: TenantsLimits, owner: Parameters<StoredQuotas>[0]): ReturnType<StoredQuotas> {
  const whole = limitsOf(tenants, owner.tenant)
  const tenant = { ...defaultStored, ...whole.stored }
  const half = { bytes: Math.ceil(tenant.bytes / 2), files: Math.ceil(tenant.files / 2) }
  return { tenant, principal: { ...half, ...principalLimits(whole, owner.principal).stored } }
}

/** The same of settings that follow the configuration. */
export function quotasOf(settings: { readonly tenants: TenantsLimits }): StoredQuotas {
  return (owner) => storedQuotas(settings.tenants, owner)
}

function ownOf<T extends Limits>(all: { readonly [name: string]: T }, name: string): Partial<T> {
  return (Object.hasOwn(all, name) ? all[name] : undefined) ?? {}
}

/** What is set for one tenant, or under `*` for all those that are not named. */
interface TenantSettings extends TenantLimits {
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
