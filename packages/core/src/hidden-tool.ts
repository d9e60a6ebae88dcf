import type { Tool } from '@gantry/contract'
import type { Catalog } from './catalogs/catalog.ts'
import { memoryCatalog } from './catalogs/memory.ts'

/**
 * The same catalog with one more tool, which is found by its id and neither listed nor searched; a tool of that name in
 * the catalog itself takes its place.
 */
export function withHidden(catalog: Catalog, tool: Tool): Catalog {
  const key = `${tool.namespace}:${tool.name}`
  let hidden: Catalog | undefined
  const hiddenCatalog = (): Catalog => {
    if (hidden !== undefined) return hidden
    hidden = memoryCatalog()
    hidden.register(tool)
    return hidden
  }
  const catalogFor = (id: string): Catalog => {
    const isMeant = typeof id === 'string' && id.startsWith(key) && (id.length === key.length || id[key.length] === ':')
    return isMeant && catalog.versions(key).length === 0 ? hiddenCatalog() : catalog
  }
  return {
    register: (added, options) => catalog.register(added, options),
    update: (changed, options) => catalog.update(changed, options),
    unregister: (id) => catalog.unregister(id),
    find: (id, onlooker) => catalogFor(id).find(id, onlooker),
    versions: (id) => catalogFor(id).versions(id),
    list: (query) => catalog.list(query),
    search: (query, options) => catalog.search(query, options),
    namespaces: () => catalog.namespaces(),
    get hash() {
      return catalog.hash
    },
    get size() {
      return catalog.size
    },
    subscribe: (listener) => catalog.subscribe(listener),
  }
}
