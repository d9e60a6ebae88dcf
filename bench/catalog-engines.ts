import { createExecutor, memoryCatalog, type Tool } from 'gantry'
import { type Query, restrictedPermissions } from './generated-tools.ts'
import { importPeer } from './peers.ts'

/** An engine in which tools are registered and searched. */
export interface Engine {
  add(tool: Tool): void
  search(query: Query): unknown
}

const held = restrictedPermissions()

/** Gantry as a program uses it: the catalog registers tools, the executor searches those visible to the caller. */
export async function gantryEngine(): Promise<Engine> {
  const catalog = memoryCatalog()
  const gantry = createExecutor({ catalog })
  const all = { principal: 'all', tenant: 'bench', permissions: ['*'] }
  const some = { principal: 'some', tenant: 'bench', permissions: held }
  return {
    add: (tool) => void catalog.register(tool),
    search: ({ text, restricted }) => gantry.search(text, { identity: restricted ? some : all }),
  }
}

interface MiniSearch {
  add(document: object): void
  search(text: string, options: object): unknown[]
}

/** MiniSearch over the same fields, with like weights, prefixes and one typing error in five characters. */
export async function miniSearchEngine(): Promise<Engine> {
  const { default: MiniSearch } = await importPeer<{ default: new (options: object) => MiniSearch }>('minisearch')
  const index = new MiniSearch({
    fields: ['name', 'namespace', 'tags', 'description'],
    storeFields: ['permissions'],
    searchOptions: {
      boost: { name: 16, namespace: 6, tags: 5 },
      prefix: (term: string) => term.length > 2,
      fuzzy: 0.2,
    },
  })
  const prefixes = held.map((permission) => permission.slice(0, -1))
  const allowed = (found: { readonly permissions?: readonly string[] }): boolean =>
    (found.permissions ?? []).every((needed) => prefixes.some((prefix) => needed.startsWith(prefix)))
  return {
    add: ({ namespace, name, tags = [], description, permissions }) =>
      index.add({ id: `${namespace}:${name}`, name, namespace, tags: tags.join(' '), description, permissions }),
    search: ({ text, restricted }) => index.search(text, restricted ? { filter: allowed } : {}).slice(0, 10),
  }
}
