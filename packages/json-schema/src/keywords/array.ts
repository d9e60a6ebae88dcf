import type { JsonSchema } from '@gantry/contract'
import { findDuplicate } from '../equality.ts'
import { addIssue, join, type Node, spend } from '../node.ts'
import { applicator, assertion, type Keyword, plural, type Site } from './keyword.ts'
import { hasType } from './type.ts'

/** A keyword that limits the number of items. */
function length(holds: (length: number, limit: number) => boolean, words: string): Keyword {
  return {
    shape: 'count',
    vocabulary: 'validation',
    rank: 1,
    build(value, site) {
      const limit = value as number
      return assertion(
        site,
        (instance) => !Array.isArray(instance) || holds(instance.length, limit),
        (instance) => `must have ${words} ${plural(limit, 'item')}, but has ${(instance as unknown[]).length}`,
      )
    },
  }
}

export const minItems: Keyword = length((count, limit) => count >= limit, 'at least')
export const maxItems: Keyword = length((count, limit) => count <= limit, 'at most')

export const uniqueItems: Keyword = {
  shape: 'boolean',
  vocabulary: 'validation',
  rank: 3,
  build(value, site) {
    const { path, keyword } = site
    if (value !== true) return undefined
    return {
      ...assertion(site, (instance, state) => !Array.isArray(instance) || !findDuplicate(instance, state), String),
      report(instance, state, at) {
        const twins = Array.isArray(instance) ? findDuplicate(instance, state) : undefined
        if (twins === undefined) return
        addIssue(state, at, path, keyword, `must have no equal items, but items ${twins[0]} and ${twins[1]} are`)
      },
    }
  },
}

/** One schema for every item from `start` on. */
function rest(node: Node, start: number): Node {
  const { check, types } = node
  return applicator([node], {
    check(value, state) {
      if (!Array.isArray(value)) return true
      if (value.length > start) spend(state, value.length - start)
      for (let index = start; index < value.length; index++) {
        if (types !== 0 ? !hasType(types, value[index]) : !check(value[index], state)) return false
      }
      return true
    },
    report(value, state, at) {
      if (!Array.isArray(value)) return
      spend(state, value.length)
      for (let index = start; index < value.length; index++) node.report(value[index], state, join(at, index))
    },
    collect(value, _state, seen) {
      if (Array.isArray(value) && value.length > start) seen.allItems = true
    },
  })
}

/** A schema for each of the first items. */
function tuple(schemas: readonly JsonSchema[], site: Site): Node {
  const nodes = schemas.map((schema, index) => site.child(schema, index))
  return applicator(nodes, {
    check(value, state) {
      if (!Array.isArray(value)) return true
      const count = Math.min(nodes.length, value.length)
      spend(state, count)
      for (let index = 0; index < count; index++) if (!nodes[index]?.check(value[index], state)) return false
      return true
    },
    report(value, state, at) {
      if (!Array.isArray(value)) return
      const count = Math.min(nodes.length, value.length)
      spend(state, count)
      for (let index = 0; index < count; index++) nodes[index]?.report(value[index], state, join(at, index))
    },
    collect(value, _state, seen) {
      if (Array.isArray(value)) seen.upTo = Math.max(seen.upTo, Math.min(nodes.length, value.length))
    },
  })
}

const listLength = (value: unknown): number => (Array.isArray(value) ? value.length : 0)

export const prefixItems: Keyword = {
  shape: 'schemaList',
  vocabulary: 'applicator',
  rank: 4,
  build: (value, site) => tuple(value as JsonSchema[], site),
}

export const items: Keyword = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build: (value, site) => rest(site.child(value as JsonSchema), listLength(site.schema.prefixItems)),
}

/** Draft-07: one schema for all items, or a list for the first. */
export const itemsOrList: Keyword = {
  shape: 'items',
  vocabulary: 'applicator',
  rank: 4,
  build: (value, site) =>
    Array.isArray(value) ? tuple(value as JsonSchema[], site) : rest(site.child(value as JsonSchema), 0),
}

/** Draft-07: the items after a list in `items`. */
export const additionalItems: Keyword = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build(value, site) {
    if (!Array.isArray(site.schema.items)) return undefined
    return rest(site.child(value as JsonSchema), site.schema.items.length)
  },
}

export const contains: Keyword = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build(value, site) {
    const { path, keyword } = site
    const node = site.child(value as JsonSchema)
    const legacy = site.place.resource.dialect.legacy
    const least = legacy ? 1 : ((site.schema.minContains as number | undefined) ?? 1)
    const most = legacy ? Infinity : ((site.schema.maxContains as number | undefined) ?? Infinity)
    const count: Node['check'] = (instance, state) => {
      if (!Array.isArray(instance)) return true
      spend(state, instance.length)
      let found = 0
      for (let index = 0; index < instance.length; index++) {
        if (!node.check(instance[index], state)) continue
        if (++found > most) return false
        if (found >= least && most === Infinity) return true
      }
      return found >= least
    }
    return applicator([node], {
      check: count,
      report(instance, state, at) {
        if (count(instance, state)) return
        const bounds = most === Infinity ? `at least ${least}` : `${least} to ${most}`
        addIssue(state, at, path, keyword, `must contain ${bounds} items that match`)
      },
      collect(instance, state, seen) {
        if (!Array.isArray(instance)) return
        spend(state, instance.length)
        for (let index = 0; index < instance.length; index++) {
          if (node.check(instance[index], state)) seen.indexes.add(index)
        }
      },
    })
  },
}
