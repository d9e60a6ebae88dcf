import type { JsonSchema } from '@gantry/contract'

/** Limits of a tenant or principal; an absent one does not apply. */
export interface Limits {
  /** Rate of admitted calls; `burst` defaults to the calls of one second. */
  readonly rate?: { readonly perSecond: number; readonly burst?: number }
  /** Concurrently running calls. */
  readonly concurrency?: number
  /** Waiting calls. */
  readonly queued?: number
  /** Budget of cost units, as tools declare them; it refills completely in `everyMs`. */
  readonly cost?: { readonly budget: number; readonly everyMs: number }
  /** Stored files. */
  readonly stored?: { readonly bytes?: number; readonly files?: number }
}

/** Limits of a tenant and of its principals; `*` is for principals that are not named. */
export interface TenantLimits extends Limits {
  /** Fair share: twice the weight is twice the running calls while others wait too; 1 when absent. */
  readonly weight?: number
  readonly principals?: { readonly [principal: string]: Limits }
}

/** By tenant; `*` supplies what the entry of a tenant omits. */
export type TenantsLimits = { readonly [tenant: string]: TenantLimits }

/** Quota of stored files of one tenant or principal. */
interface StoredQuota {
  readonly bytes: number
  readonly files: number
}

/** The quotas for the owner of a file. */
export type StoredQuotas = (owner: { readonly tenant: string; readonly principal: string }) => {
  readonly tenant: StoredQuota
  readonly principal: StoredQuota
}

/** The limits of a tenant: its own, completed by those of `*`, also for principals. */
export function limitsOf(tenants: TenantsLimits, tenant: string): TenantLimits {
  const [own, all] = [ownOf(tenants, tenant), ownOf(tenants, '*')]
  const { principals = {} } = own
  const { principals: others = {} } = all
  const names = [...new Set([...Object.keys(others), ...Object.keys(principals)])]
  if (names.length === 0) return { ...all, ...own }
  const both = names.map((name) => [name, { ...ownOf(others, name), ...ownOf(principals, name) }])
  return { ...all, ...own, principals: Object.fromEntries(both) }
}

/** The limits of a principal: its own, completed by those of `*`. */
export function principalLimits({ principals = {} }: TenantLimits, principal: string): Limits {
  return { ...ownOf(principals, '*'), ...ownOf(principals, principal) }
}

/** Default quota of a tenant; a principal gets half of its tenant's. */
const defaultStored: StoredQuota = { bytes: 10_737_418_240, files: 1_000_000 }

/** The quotas for stored files of an owner. */
export function storedQuotas(tenants: TenantsLimits, owner: Parameters<StoredQuotas>[0]): ReturnType<StoredQuotas> {
  const whole = limitsOf(tenants, owner.tenant)
  const tenant = { ...defaultStored, ...whole.stored }
  const half = { bytes: Math.ceil(tenant.bytes / 2), files: Math.ceil(tenant.files / 2) }
  return { tenant, principal: { ...half, ...principalLimits(whole, owner.principal).stored } }
}

/** As `storedQuotas`, read from the live settings at each use. */
export function quotasOf(settings: { readonly tenants: TenantsLimits }): StoredQuotas {
  return (owner) => storedQuotas(settings.tenants, owner)
}

function ownOf<T extends Limits>(all: { readonly [name: string]: T }, name: string): Partial<T> {
  return (Object.hasOwn(all, name) ? all[name] : undefined) ?? {}
}

/** Settings of one tenant, or under `*` of all that are not named. */
interface TenantSettings extends TenantLimits {
  /** Patterns of the tools that are visible to it; all when absent. */
  readonly tools?: readonly string[]
}

export type TenantsSettings = { readonly [tenant: string]: TenantSettings }

const positive = { type: 'number', exclusiveMinimum: 0, maximum: 1e9 }
const count = { type: 'integer', minimum: 1, maximum: 1_000_000 }

/** Schema of limits that tenants and principals share. */
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

/** Schema of the key `tenants`. */
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

/** Tool patterns by tenant; undefined when no tenant has any. */
export function toolsByTenant(tenants: TenantsSettings): { readonly [tenant: string]: readonly string[] } | undefined {
  const limited = Object.entries(tenants).flatMap(([tenant, { tools }]) =>
    tools === undefined ? [] : [[tenant, tools]],
  )
  return limited.length === 0 ? undefined : Object.fromEntries(limited)
}
