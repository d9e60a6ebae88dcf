import type { JsonSchema } from '@gantry/contract'
import { addIssue, join, type Node, type Seen, type State, spend } from '../node.ts'
import { applicator, isObject, type Keyword, type Site } from './keyword.ts'

type Left = (value: object, seen: Seen) => readonly (string | number)[]

/** Applies a schema to what no other keyword looked at; `left` lists it and `all` marks everything as looked at. */
function unevaluated(left: Left, words: string, all: (seen: Seen) => void): NonNullable<Keyword['build']> {
  return (value: unknown, site: Site): Node => {
    const node = site.child(value as JsonSchema)
    const siblings = site.siblings()
    const { path, keyword } = site
    const keysLeft = (instance: object, state: State): readonly (string | number)[] => {
      const seen: Seen = { allProperties: false, names: new Set(), allItems: false, upTo: 0, indexes: new Set() }
      for (const sibling of siblings) sibling.collect?.(instance, state, seen)
      const keys = left(instance, seen)
      spend(state, keys.length)
      return keys
    }
    return applicator([node], {
      check(instance, state) {
        if (typeof instance !== 'object' || instance === null) return true
        for (const key of keysLeft(instance, state)) {
          if (!node.check((instance as Record<string, unknown>)[key], state)) return false
        }
        return true
      },
      report(instance, state, at) {
        if (typeof instance !== 'object' || instance === null) return
        for (const key of keysLeft(instance, state)) {
          if (value !== false) node.report((instance as Record<string, unknown>)[key], state, join(at, key))
          else addIssue(state, join(at, key), path, keyword, words)
        }
      },
      collect: (_instance, _state, seen) => all(seen),
    })
  }
}

export const unevaluatedProperties: Keyword = {
  shape: 'schema',
  vocabulary: 'unevaluated',
  rank: 9,
  build: unevaluated(
    (value, seen) =>
      !isObject(value) || seen.allProperties ? [] : Object.keys(value).filter((key) => !seen.names.has(key)),
    'is not an allowed property',
    (seen) => {
      seen.allProperties = true
    },
  ),
}

export const unevaluatedItems: Keyword = {
  shape: 'schema',
  vocabulary: 'unevaluated',
  rank: 9,
  build: unevaluated(
    (value, seen) => {
      if (!Array.isArray(value) || seen.allItems) return []
      const indexes: number[] = []
      for (let index = seen.upTo; index < value.length; index++) if (!seen.indexes.has(index)) indexes.push(index)
      return indexes
    },
    'is not an allowed item',
    (seen) => {
      seen.allItems = true
    },
  ),
}
