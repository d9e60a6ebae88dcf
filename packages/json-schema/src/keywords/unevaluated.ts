import { isObject } from '@gantry/contract/internal/json'
import { addIssue, join, type Seen, type State, spend } from '../node.ts'
import { applicator, type Keyword } from './keyword.ts'

type Left = (value: unknown, seen: Seen) => readonly (readonly [key: string | number, member: unknown])[]

/** Applies a schema to unevaluated members; `left` lists them and `all` marks everything as evaluated. */
function unevaluated(left: Left, words: string, all: (seen: Seen) => void): NonNullable<Keyword<'schema'>['build']> {
  return (value, site) => {
    const node = site.child(value)
    const siblings = site.siblings()
    const { path, keyword } = site
    const membersLeft = (instance: unknown, state: State): ReturnType<Left> => {
      const seen: Seen = { allProperties: false, names: new Set(), allItems: false, upTo: 0, indexes: new Set() }
      for (const sibling of siblings) sibling.collect?.(instance, state, seen)
      const members = left(instance, seen)
      spend(state, members.length)
      return members
    }
    return applicator([node], {
      check(instance, state) {
        if (typeof instance !== 'object' || instance === null) return true
        for (const [, member] of membersLeft(instance, state)) if (!node.check(member, state)) return false
        return true
      },
      report(instance, state, at) {
        if (typeof instance !== 'object' || instance === null) return
        for (const [key, member] of membersLeft(instance, state)) {
          if (value !== false) node.report(member, state, join(at, key))
          else addIssue(state, join(at, key), path, keyword, words)
        }
      },
      collect: (_instance, _state, seen) => all(seen),
    })
  }
}

export const unevaluatedProperties: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'unevaluated',
  rank: 9,
  build: unevaluated(
    (value, seen) =>
      !isObject(value) || seen.allProperties ? [] : Object.entries(value).filter(([key]) => !seen.names.has(key)),
    'is not an allowed property',
    (seen) => {
      seen.allProperties = true
    },
  ),
}

export const unevaluatedItems: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'unevaluated',
  rank: 9,
  build: unevaluated(
    (value, seen) => {
      if (!Array.isArray(value) || seen.allItems) return []
      const items: [number, unknown][] = []
      for (let index = seen.upTo; index < value.length; index++) {
        if (!seen.indexes.has(index)) items.push([index, value[index]])
      }
      return items
    },
    'is not an allowed item',
    (seen) => {
      seen.allItems = true
    },
  ),
}
