import type { JsonSchema } from '@gantry/contract'
import type { Site } from './keywords/keyword.ts'
import { inScope } from './keywords/reference.ts'
import { addIssue, join, type Node } from './node.ts'
import type { Pattern } from './patterns/pattern.ts'
import { newPlace, type Place, type Resource, type SchemaObject } from './place.ts'
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
  const { dialect } = place.resource
  const evaluating: Node[] = []
  const found: { readonly rank: number; readonly node: Node }[] = []
  for (const keyword of dialect.legacy && Object.hasOwn(schema, '$ref') ? ['$ref'] : Object.keys(schema)) {
    const definition = dialect.keywords.get(keyword)
    const node = definition?.build?.(schema[keyword], new KeywordSite(schema, keyword, place, context, evaluating))
    if (definition === undefined || node === undefined) continue
    found.push({ rank: definition.rank, node })
    if (definition.vocabulary !== 'unevaluated') evaluating.push(node)
  }
  return found.sort((left, right) => left.rank - right.rank).map(({ node }) => node)
}

/** What a keyword sees while it is compiled. */
class KeywordSite implements Site {
  readonly schema: SchemaObject
  readonly keyword: string
  readonly path: string
  readonly place: Place
  readonly #context: Context
  readonly #evaluating: readonly Node[]

  constructor(schema: SchemaObject, keyword: string, place: Place, context: Context, evaluating: readonly Node[]) {
    this.schema = schema
    this.keyword = keyword
    this.path = join(place.path, keyword)
    this.place = place
    this.#context = context
    this.#evaluating = evaluating
  }

  get assertFormat(): boolean {
    return this.#context.assertFormat || this.place.resource.dialect.assertFormat
  }

  get resources(): Iterable<Resource> {
    return this.#context.registry.resources.values()
  }

  get dynamic(): boolean {
    return this.#context.registry.dynamic
  }

  child(schema: JsonSchema, ...segments: readonly (string | number)[]): Node {
    return this.#compile(schema, segments.reduce<string>(join, this.path))
  }

  sibling(keyword: string): Node | undefined {
    if (!Object.hasOwn(this.schema, keyword)) return undefined
    return this.#compile(this.schema[keyword] as JsonSchema, join(this.place.path, keyword))
  }

  siblings(): readonly Node[] {
    return this.#evaluating
  }

  nodeOf(place: Place): Node {
    return this.#context.nodeOf(place)
  }

  pattern(source: string): Pattern {
    return this.#context.registry.patternOf(source)
  }

  #compile(schema: JsonSchema, path: string): Node {
    const known = typeof schema === 'object' ? this.place.resource.places.get(schema) : undefined
    return compileNode(known ?? newPlace(schema, path, 0, this.place.resource), this.#context)
  }
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
