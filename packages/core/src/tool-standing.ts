import type { Identity } from '@gantry/contract'
import type { Catalog } from './catalogs/catalog.ts'
import { missingPermissions } from './pipeline/authorize.ts'
import { namedBy } from './pipeline/lookup.ts'
import type { Ports } from './pipeline/ports.ts'
import type { Policy } from './policies/policy.ts'
import { toolScope } from './policies/tool-scope.ts'

/** What a tool is to somebody: shown to him; there, though he is not shown it; or as if there were none. */
export type ToolStanding = 'shown' | 'there' | 'absent'

/**
 * The standing of a tool by its id, or of the best of its versions when the id names none. Of one that the catalog does
 * not know (it is gone, or its backend was not asked yet) the name alone decides, and nobody is shown it.
 */
export function standingOf(
  { catalog, there, visible }: Pick<Ports, 'catalog' | 'there' | 'visible'>,
  id: string,
  identity: Identity,
): ToolStanding {
  const named = namedBy(id)
  const key = `${named.namespace}:${named.name}`
  const versions = versionsOf(catalog, key).filter((version) => named.version === '' || named.version === version)
  if (versions.length === 0) return there(identity, named) ? 'there' : 'absent'
  const entries = versions.map((version) => catalog.find(`${key}:${version}`))
  if (entries.some((entry) => visible(identity, entry))) return 'shown'
  return entries.some(({ tool }) => there(identity, tool)) ? 'there' : 'absent'
}

function versionsOf(catalog: Catalog, key: string): readonly string[] {
  try {
    return catalog.versions(key)
  } catch {
    // What is no id is the name of nothing that the catalog has.
    return []
  }
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
