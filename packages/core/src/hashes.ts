import type { Identity } from '@gantry/contract'
import { CatalogHash } from './catalogs/catalog-hash.ts'
import { canonicalJson } from './json/canonical.ts'
import type { Ports } from './pipeline/ports.ts'

/** Hashes of the catalog as callers see it: what is hidden from one must not show in a hash that changes with it. */
export interface Hashes {
  of(identity: Identity): string
}

const mostRemembered = 100

/** Made by walking the whole catalog, and remembered until it changes. */
export function createHashes({ catalog, visible }: Pick<Ports, 'catalog' | 'visible'>): Hashes {
  const known = new Map<string, { readonly whole: string; readonly hash: string }>()
  const walk = (identity: Identity): string => {
    const hash = new CatalogHash()
    for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
      const allow = (entry: Parameters<typeof visible>[1]): boolean => visible(identity, entry)
      const page = catalog.list({ allVersions: true, limit: pageSize, cursor, allow })
      for (const entry of page.items) hash.add(entry)
      cursor = page.cursor
    }
    return hash.read()
  }
  return {
    of(identity) {
      const name = canonicalJson(identity)
      const whole = catalog.hash
      const before = known.get(name)
      if (before?.whole === whole) return before.hash
      const hash = walk(identity)
      if (known.size >= mostRemembered) known.clear()
      known.set(name, { whole, hash })
      return hash
    },
  }
}
