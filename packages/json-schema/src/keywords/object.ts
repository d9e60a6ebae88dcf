import type { JsonSchema } from '@gantry/contract'
import { abridgeKey, addIssue, join, type Node, spend } from '../node.ts'
import { applicator, assertion, isObject, type Keyword, plural } from './keyword.ts'

/** A keyword that limits the number of properties. */
function size(holds: (size: number, limit: number) => boolean, words: string): Keyword {
  return {
    shape: 'count',
    vocabulary: 'validation',
    rank: 1,
    build(value, site) {
      const limit = value as number
      return assertion(
        site,
        (instance, state) => {
          if (!isObject(instance)) return true
          const count = Object.keys(instance).length
          spend(state, count)
          return holds(count, limit)
        },
        (instance) =>
          `must have ${words} ${plural(limit, 'property')}, but has ${Object.keys(instance as object).length}`,
      )
    },
  }
}

export const minProperties: Keyword = size((count, limit) => count >= limit, 'at least')
export const maxProperties: Keyword = size((count, limit) => count <= limit, 'at most')

/** Reports each required name that is missing. */
function reportMissing(names: readonly string[], path: string, keyword: string, why: string): Node['report'] {
  return (value, state, at) => {
    if (!isObject(value)) return
    spend(state, names.length)
    for (const name of names) {
      if (hasMember(value, name)) continue
      addIssue(state, at, path, keyword, `must have the property "${abridgeKey(name)}"${why}`)
    }
  }
}

/** Whether an object itself has a property; `undefined` is not JSON and counts as absent. */
export function hasMember(value: Readonly<Record<string, unknown>>, name: string): boolean {
  return value[name] !== undefined && Object.hasOwn(value, name)
}

export const required: Keyword = {
  shape: 'names',
  vocabulary: 'validation',
  rank: 1,
  build(value, site) {
    const names = value as readonly string[]
    const { properties } = site.schema
    return {
      ...assertion(
        site,
        (instance, state) => {
          if (!isObject(instance)) return true
          spend(state, names.length)
          for (let index = 0; index < names.length; index++) {
            if (!hasMember(instance, names[index] ?? '')) return false
          }
          return true
        },
        String,
      ),
      report: reportMissing(names, site.path, site.keyword, ''),
      covered: isObject(properties) && names.every((name) => Object.hasOwn(properties, name)),
    }
  },
}

export const dependentRequired: Keyword = {
  shape: 'namesMap',
  vocabulary: 'validation',
  rank: 2,
  build: (value, site) => dependencies.build?.(value, site),
}

export const dependentSchemas: Keyword = {
  shape: 'schemaMap',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build: (value, site) => dependencies.build?.(value, site),
}

/** Names or a schema that the presence of a property brings with it. */
export const dependencies: Keyword = {
  shape: 'dependencies',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const entries = Object.entries(value as Record<string, JsonSchema | readonly string[]>).map(([name, needs]) => ({
      name,
      node: Array.isArray(needs)
        ? namesNode(needs, name, site.path, site.keyword)
        : site.child(needs as JsonSchema, name),
    }))
    return applicator(
      entries.map((entry) => entry.node),
      {
        check(instance, state) {
          if (!isObject(instance)) return true
          spend(state, entries.length)
          return entries.every(({ name, node }) => !hasMember(instance, name) || node.check(instance, state))
        },
        report(instance, state, at) {
          if (!isObject(instance)) return
          spend(state, entries.length)
          for (const { name, node } of entries) if (hasMember(instance, name)) node.report(instance, state, at)
        },
        collect(instance, state, seen) {
          if (!isObject(instance)) return
          spend(state, entries.length)
          for (const { name, node } of entries) {
            if (node.collect && hasMember(instance, name) && node.check(instance, state)) {
              node.collect(instance, state, seen)
            }
          }
        },
      },
    )
  },
}

function namesNode(names: readonly string[], cause: string, path: string, keyword: string): Node {
  return {
    check(value, state) {
      spend(state, names.length)
      return !isObject(value) || names.every((name) => hasMember(value, name))
    },
    report: reportMissing(names, join(path, cause), keyword, ` because it has "${abridgeKey(cause)}"`),
    collect: undefined,
    height: 0,
    types: 0,
    covered: false,
  }
}

export const propertyNames: Keyword = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build(value, site) {
    const { path, keyword } = site
    const node = site.child(value as JsonSchema)
    return applicator([node], {
      check(instance, state) {
        if (!isObject(instance)) return true
        const names = Object.keys(instance)
        spend(state, names.length)
        return names.every((name) => node.check(name, state))
      },
      report(instance, state, at) {
        if (!isObject(instance)) return
        for (const name of Object.keys(instance)) {
          spend(state, 1)
          const before = state.issues.length
          node.report(name, state, join(at, name))
          if (state.issues.length === before) continue
          addIssue(state, join(at, name), path, keyword, 'must have a name that is allowed')
        }
      },
    })
  },
}
