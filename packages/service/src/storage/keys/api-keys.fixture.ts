import { type Identity, type KeyView, ToolError } from '@gantry/contract'
import { type KeyRecords, type LiveKey, makerOf, type NewKey, takenError } from './api-keys.ts'

/** API keys in memory, for tests of their callers. */
export function memoryKeys(): KeyRecords & { readonly asked: string[][] } {
  const views = new Map<string, KeyView>()
  const keys = new Map<string, NewKey>()
  const get = async (id: string, tenant: string | undefined): Promise<KeyView> => {
    const found = views.get(id)
    if (found === undefined || (tenant !== undefined && found.tenant !== tenant)) {
      throw new ToolError('NOT_FOUND', 'There is no key of this id.')
    }
    return found
  }
  const put = (key: NewKey, by: string, replaces?: string): KeyView => {
    const { id, name, identity, verifier, lifeMs } = key
    const { tenant, principal, permissions, roles = [], tools } = identity
    const view: KeyView = {
      id,
      name,
      tenant,
      principal,
      permissions,
      roles,
      state: 'live',
      createdBy: by,
      kind: 'digest' in verifier ? 'bearer' : 'signing',
      createdAt: new Date().toISOString(),
      expiresAt: new Date(Date.now() + lifeMs).toISOString(),
      ...(tools === undefined ? {} : { tools }),
      ...(replaces === undefined ? {} : { replaces }),
    }
    keys.set(id, key)
    views.set(id, view)
    return view
  }
  const refuseTaken = ({ identity: { tenant, principal } }: NewKey, by: Identity): void => {
    const same = [...views.values()].filter((view) => view.tenant === tenant && view.principal === principal)
    const own = same.some(({ createdBy, replaces }) => createdBy === makerOf(by, tenant) && replaces === undefined)
    if (same.length > 0 && !own) throw takenError()
  }
  const asked: string[][] = []
  return {
    asked,
    get,
    async add(key, by, { unclaimed } = { unclaimed: false }) {
      if (unclaimed) refuseTaken(key, by)
      return put(key, makerOf(by, key.identity.tenant))
    },
    pending: async () => [],
    list: async (_query, tenant) => ({
      items: [...views.values()].filter((view) => tenant === undefined || view.tenant === tenant),
    }),
    async rotate(id, next, _overlapMs, by, { unclaimed } = { unclaimed: false }) {
      if (unclaimed) refuseTaken(next, by)
      return put(next, makerOf(by, next.identity.tenant), id)
    },
    async revoke(id, tenant) {
      const view: KeyView = { ...(await get(id, tenant)), state: 'revoked', revokedAt: new Date().toISOString() }
      views.set(id, view)
      return view
    },
    async find(ids) {
      asked.push([...ids])
      return ids.flatMap((id): LiveKey[] => {
        const key = keys.get(id)
        if (key === undefined || views.get(id)?.state !== 'live') return []
        return [{ id, identity: key.identity, verifier: key.verifier, leftMs: key.lifeMs }]
      })
    },
    used: async () => undefined,
  }
}
