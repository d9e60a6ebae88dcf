import type { JsonSchema } from '@gantry/contract'
import type { Site } from './keywords/keyword.ts'
import { inScope } from './keywords/reference.ts'
import { addIssue, join, type Node, type Place, type SchemaObject } from './node.ts'
import type { Registry } from './registry.ts'

/** Turns a verified schema into one node; targets of references are compiled from a list, so that chains cannot nest. */
export function compilePlace(root: Place, registry: Registry, assertFormat: boolean): Node {
  const pending: Place[] = []
  const nodeOf = (place: Place): Node => {
    if (place.node === undefined) {
      place.node = unfinished()
      pending.push(place)
    }
    return place.node
  }
  const node = nodeOf(root)
  for (let place = pending.pop(); place !== undefined; place = pending.pop()) {
    if (place.node !== undefined) Object.assign(place.node, compileNode(place, { registry, assertFormat, nodeOf }))
  }
  return node
}

interface Context {
  readonly registry: Registry
  readonly assertFormat: boolean
  readonly nodeOf: (place: Place) => Node
}

function compileNode(place: Place, context: Context): Node {
  if (typeof place.schema === 'boolean') return place.schema ? always() : never(place.path)
  const rules = compileKeywords(place, place.schema, context)
  const node = compose(rules)
  return context.registry.dynamic && place.resource.root === place ? inScope(node, place.resource) : node
}

/** The compiled keywords of one schema, cheap ones first and `unevaluated…` last. */
function compileKeywords(place: Place, schema: SchemaObject, context: Context): Node[] {
  const { registry, nodeOf } = context
  const { dialect } = place.resource
  const evaluating: Node[] = []
  const found: { readonly rank: number; readonly node: Node }[] = []
  const child = (value: JsonSchema, path: string): Node => {
    const inner = typeof value === 'object' ? place.resource.places.get(value) : undefined
    return compileNode(inner ?? { ...place, schema: value, path }, context)
  }
  for (const keyword of dialect.legacy && Object.hasOwn(schema, '$ref') ? ['$ref'] : Object.keys(schema)) {
    const definition = dialect.keywords.get(keyword)
    if (definition?.build === undefined) continue
    const path = join(place.path, keyword)
    const site: Site = {
      schema,
      keyword,
      path,
      place,
      assertFormat: context.assertFormat || dialect.assertFormat,
      child: (value, ...segments) => child(value, segments.reduce<string>(join, path)),
      sibling: (name) =>
        Object.hasOwn(schema, name) ? child(schema[name] as JsonSchema, join(place.path, name)) : undefined,
      collectSiblings(value, state, seen) {
        for (const node of evaluating) node.collect?.(value, state, seen)
      },
      nodeOf,
      pattern: (source) => registry.patternOf(source),
      resources: registry.resources.values(),
      dynamic: registry.dynamic,
    }
    const node = definition.build(schema[keyword], site)
    if (node === undefined) continue
    found.push({ rank: definition.rank, node })
    if (definition.vocabulary !== 'unevaluated') evaluating.push(node)
  }
  return found.sort((left, right) => left.rank - right.rank).map(({ node }) => node)
}

/** All keywords of one schema as one node. */
function compose(rules: readonly Node[]): Node {
  const [first, second] = rules
  if (first === undefined) return always()
  if (second === undefined) return first.covered ? { ...first, covered: false } : first
  const active = rules.filter((rule) => !rule.covered)
  const collecting = rules.filter((rule) => rule.collect !== undefined)
  return {
    check: checkAll(active),
    report(value, state, at) {
      for (const rule of rules) rule.report(value, state, at)
    },
    collect:
      collecting.length === 0
        ? undefined
        : (value, state, seen) => {
            for (const rule of collecting) rule.collect?.(value, state, seen)
          },
    height: rules.reduce((height, rule) => Math.max(height, rule.height), 0) + 1,
    types: 0,
    covered: false,
  }
}

/** Few rules are called directly, which is faster than a loop. */
function checkAll(rules: readonly Node[]): Node['check'] {
  const checks = rules.map((rule) => rule.check)
  const [first, second, third] = checks
  if (first === undefined) return () => true
  if (second === undefined) return first
  if (third === undefined) return (value, state) => first(value, state) && second(value, state)
  if (checks.length === 3) {
    return (value, state) => first(value, state) && second(value, state) && third(value, state)
  }
  return (value, state) => {
    for (const check of checks) if (!check(value, state)) return false
    return true
  }
}

function always(): Node {
  return { check: () => true, report() {}, collect: undefined, height: 0, types: 0, covered: false }
}

function never(path: string): Node {
  return {
    ...always(),
    check: () => false,
    report: (_value, state, at) => addIssue(state, at, path, 'false', 'must not be present: the schema here is false'),
  }
}

/** Stands for a node until it is compiled. */
const unfinished = always
