import type { JsonSchema } from '@gantry/contract'
import { isObject } from '@gantry/contract/internal/json'
import { abridgeKey, addIssue, exhausted, join, type Node, type State, spend, sure } from '../node.ts'
import type { Pattern } from '../patterns/pattern.ts'
import { applicator, assertion, type Keyword, limit, plural, type Site } from './keyword.ts'
import { hasType } from './value.ts'

interface Property {
  readonly name: string
  readonly node: Node
  readonly check: Node['check']
  readonly types: number
  readonly required: boolean
  /** Where the next property is expected: callers mostly write them in the schema's order. */
  readonly next: number
}

/** True for an object literal or parsed JSON, whose enumerable members are all its own. */
function isPlain(value: object): boolean {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/**
 * The hot path of nearly every tool: it also does the work of a sibling `type: object`, of `required` names that are
 * described here, and of `additionalProperties: false`, so that an object is walked once.
 */
export const properties: Keyword<'schemaMap'> = {
  shape: 'schemaMap',
  vocabulary: 'applicator',
  rank: 4,
  build(schemas, site) {
    const names = Object.keys(schemas)
    const needed = site.location.resource.dialect.keywords.has('required') ? site.schema.required : undefined
    const covered = Array.isArray(needed) && needed.every((name) => Object.hasOwn(schemas, name))
    const list: Property[] = names.map((name, index) => {
      const node = site.child(schemas[name] ?? true, name)
      return {
        name,
        node,
        check: node.check,
        types: node.types,
        required: covered && needed.includes(name),
        next: index + 1,
      }
    })
    const byName = new Map(list.map((property) => [property.name, property]))
    const requiredCount = list.filter((property) => property.required).length
    const strict = site.schema.type === 'object' && site.location.resource.dialect.keywords.has('type')
    const closed = isClosed(site)
    return applicator(
      list.map((property) => property.node),
      {
        check(instance, state) {
          if (!isObject(instance)) return !strict
          const plain = isPlain(instance)
          let missing = requiredCount
          let expected = 0
          for (const key in instance) {
            if (--state.steps < 0) throw exhausted
            if (!plain && !Object.hasOwn(instance, key)) continue
            let property: Property | undefined = list[expected]
            if (property === undefined || property.name !== key) {
              property = byName.get(key)
              if (property === undefined) {
                if (closed) return false
                continue
              }
            }
            expected = property.next
            const member = instance[key]
            if (member === undefined) continue
            if (property.required) missing--
            if (property.types !== 0 ? !hasType(property.types, member) : !property.check(member, state)) return false
          }
          return missing === 0
        },
        report(instance, state, at) {
          if (!isObject(instance)) return
          spend(state, names.length)
          for (const { name, node } of list) {
            if (hasMember(instance, name)) node.report(instance[name], state, join(at, name))
          }
        },
        collect(instance, state, seen) {
          if (!isObject(instance)) return
          spend(state, names.length)
          for (const name of names) if (hasMember(instance, name)) seen.names.add(name)
        },
      },
    )
  },
}

/** Whether `additionalProperties: false` has `properties` alone as its sibling. */
function isClosed(site: Site): boolean {
  return site.schema.additionalProperties === false && !Object.hasOwn(site.schema, 'patternProperties')
}

export const patternProperties: Keyword<'patterns'> = {
  shape: 'patterns',
  vocabulary: 'applicator',
  rank: 4,
  build(value, site) {
    const { keyword } = site
    const list = Object.entries(value).map(([source, schema]) => ({
      pattern: site.pattern(source),
      node: site.child(schema, source),
      path: join(site.path, source),
    }))
    return applicator(
      list.map((entry) => entry.node),
      {
        check(instance, state) {
          if (!isObject(instance)) return true
          const keys = Object.keys(instance)
          spend(state, keys.length * list.length)
          for (const { pattern, node } of list) {
            for (const key of keys) {
              if (sure(pattern.matches(key, state)) && !node.check(instance[key], state)) return false
            }
          }
          return true
        },
        report(instance, state, at) {
          if (!isObject(instance)) return
          const keys = Object.keys(instance)
          spend(state, keys.length * list.length)
          for (const { pattern, node, path } of list) {
            for (const key of keys) {
              const match = pattern.matches(key, state)
              if (match) node.report(instance[key], state, join(at, key))
              if (match !== undefined) continue
              addIssue(state, join(at, key), path, keyword, 'has a name too long to check against this pattern')
            }
          }
        },
        collect(instance, state, seen) {
          if (!isObject(instance)) return
          const keys = Object.keys(instance)
          spend(state, keys.length * list.length)
          for (const key of keys) if (list.some(({ pattern }) => sure(pattern.matches(key, state)))) seen.names.add(key)
        },
      },
    )
  },
}

export const additionalProperties: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 5,
  build(value, site) {
    const { path, keyword } = site
    const node = site.child(value)
    const { properties: described, patternProperties: byPattern } = site.schema
    const known = new Set(isObject(described) ? Object.keys(described) : [])
    const patterns = isObject(byPattern) ? Object.keys(byPattern).map((source) => site.pattern(source)) : []
    const refuse = value === false
    return applicator([node], {
      covered: isClosed(site) && isObject(described),
      check(instance, state) {
        if (!isObject(instance)) return true
        for (const key of Object.keys(instance)) {
          spend(state, 1)
          if (isKnown(key, known, patterns, state)) continue
          if (refuse) return false
          if (!node.check(instance[key], state)) return false
        }
        return true
      },
      report(instance, state, at) {
        if (!isObject(instance)) return
        for (const key of Object.keys(instance)) {
          spend(state, 1)
          if (isKnown(key, known, patterns, state)) continue
          if (!refuse) node.report(instance[key], state, join(at, key))
          else addIssue(state, join(at, key), path, keyword, 'is not an allowed property')
        }
      },
      collect(instance, _state, seen) {
        if (isObject(instance)) seen.allProperties = true
      },
    })
  },
}

function isKnown(key: string, known: ReadonlySet<string>, patterns: readonly Pattern[], state: State): boolean {
  if (known.has(key)) return true
  for (const pattern of patterns) if (sure(pattern.matches(key, state))) return true
  return false
}

export const minProperties: Keyword<'count'> = limit(
  'count',
  (least) => (value, state) => !isObject(value) || countOf(value, state) >= least,
  (least, value) => `must have at least ${plural(least, 'property')}, but has ${memberCount(value)}`,
)

export const maxProperties: Keyword<'count'> = limit(
  'count',
  (most) => (value, state) => !isObject(value) || countOf(value, state) <= most,
  (most, value) => `must have at most ${plural(most, 'property')}, but has ${memberCount(value)}`,
)

const memberCount = (value: unknown): number => (isObject(value) ? Object.keys(value).length : 0)

function countOf(value: object, state: State): number {
  const count = Object.keys(value).length
  spend(state, count)
  return count
}

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
function hasMember(value: Readonly<Record<string, unknown>>, name: string): boolean {
  return value[name] !== undefined && Object.hasOwn(value, name)
}

export const required: Keyword<'names'> = {
  shape: 'names',
  vocabulary: 'validation',
  rank: 1,
  build(names, site) {
    const { properties: described } = site.schema
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
      covered: isObject(described) && names.every((name) => Object.hasOwn(described, name)),
    }
  },
}

export const dependentRequired: Keyword<'namesMap'> = {
  shape: 'namesMap',
  vocabulary: 'validation',
  rank: 2,
  build: (value, site) => dependencies.build?.(value, site),
}

export const dependentSchemas: Keyword<'schemaMap'> = {
  shape: 'schemaMap',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build: (value, site) => dependencies.build?.(value, site),
}

/** Names or a schema that the presence of a property brings with it. */
export const dependencies: Keyword<'dependencies'> = {
  shape: 'dependencies',
  vocabulary: 'applicator',
  inPlace: true,
  rank: 5,
  build(value, site) {
    const entries = Object.entries(value).map(([name, needs]) => ({
      name,
      node: isNames(needs) ? namesNode(needs, name, site.path, site.keyword) : site.child(needs, name),
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

const isNames = (needs: JsonSchema | readonly string[]): needs is readonly string[] => Array.isArray(needs)

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

export const propertyNames: Keyword<'schema'> = {
  shape: 'schema',
  vocabulary: 'applicator',
  rank: 4,
  build(value, site) {
    const { path, keyword } = site
    const node = site.child(value)
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
