import type { JsonSchema } from '@gantry/contract'
import { addIssue, join, type Node, spend } from '../node.ts'
import { applicator, assertion, type Keyword, limit, plural, type Site } from './keyword.ts'
import { findDuplicate, hasType } from './value.ts'

const listLength = (value: unknown): number => (Array.isArray(value) ? value.length : 0)

export const minItems: Keyword<'count'> = limit(
  'count',
  (least) => (value) => !Array.isArray(value) || value.length >= least,
  (least, value) => `must have at least ${plural(least, 'item')}, but has ${listLength(value)}`,
)

export const maxItems: Keyword<'count'> = limit(
  'count',
  (most) => (value) => !Array.isArray(value) || value.length <= most,
  (most, value) => `must have at most ${plural(most, 'item')}, but has ${listLength(value)}`,
)

export const uniqueItems: Keyword<'boolean'> = {
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

export const prefixItems: Keyword<'schemaList'> = {
  shape: 'schemaList',
  vocabulary: 'applicator',
  rank: 4,
  build: (value, site) => tuple(value, site),
}

export const items: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build: (value, site) => rest(site.child(value), listLength(site.schema.prefixItems)),
}

const isList = (value: JsonSchema | readonly JsonSchema[]): value is readonly JsonSchema[] => Array.isArray(value)

/** Draft-07: one schema for all items, or a list for the first. */
export const itemsOrList: Keyword<'items'> = {
  shape: 'items',
  vocabulary: 'applicator',
  rank: 4,
  build: (value, site) => (isList(value) ? tuple(value, site) : rest(site.child(value), 0)),
}

/** Draft-07: the items after a list in `items`. */
export const additionalItems: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build(value, site) {
    if (!Array.isArray(site.schema.items)) return undefined
    return rest(site.child(value), site.schema.items.length)
  },
}

const countIn = (value: unknown, otherwise: number): number => (typeof value === 'number' ? value : otherwise)

export const contains: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build(value, site) {
    const { path, keyword } = site
    const node = site.child(value)
    const legacy = site.location.resource.dialect.legacy
    const least = legacy ? 1 : countIn(site.schema.minContains, 1)
    const most = legacy ? Infinity : countIn(site.schema.maxContains, Infinity)
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
