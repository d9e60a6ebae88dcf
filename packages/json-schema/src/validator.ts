import type { Issue, JsonSchema } from '@gantry/contract'
import type { Site } from './keywords/keyword.ts'
import { inScope } from './keywords/reference.ts'
import { isSchema } from './keywords/value.ts'
import { type LoadOptions, loadSchema } from './load.ts'
import { type Location, newLocation, type Resource, type SchemaObject } from './location.ts'
import { addIssue, enough, join, type Node, type State, Stop } from './node.ts'
import type { Pattern } from './patterns/pattern.ts'
import type { Registry } from './registry.ts'

export interface CompileOptions extends LoadOptions {
  /** `annotate`, the default, leaves `format` to the reader; `assert` enforces it. */
  readonly format?: 'annotate' | 'assert'
}

/** A compiled schema. Both functions are synchronous, keep nothing of the value, and end within the limits. */
export interface Validator {
  /** Whether the value is valid; also false when the check exceeds its limits, which `issues` reports. */
  check(value: unknown): boolean
  /**
   * Everything wrong with the value, up to `limits.issues`; empty when it fits. Keys longer than 200 characters, paths
   * longer than 1,000 and messages longer than 2,000 have an ellipsis for their middle, so that long keys cannot make
   * the list many times as large as the value.
   */
  issues(value: unknown): Issue[]
}

/** Compiles a schema; throws SCHEMA_INVALID with every malformed location in `details.issues`. */
export function compileSchema(schema: JsonSchema, options: CompileOptions = {}): Validator {
  const { root, registry } = loadSchema(schema, options)
  const node = compileLocation(root, registry, options.format === 'assert')
  const { check } = node
  const { limits } = registry
  const state: State = { steps: 0, depth: 0, maxDepth: limits.recursion, scope: [], issues: [], issuesLeft: 0 }
  const start = (): void => {
    state.steps = limits.steps
    state.depth = 0
    if (state.scope.length > 0) state.scope.length = 0
  }
  const attempt = <T>(run: () => T): T | Stop => {
    start()
    try {
      return run()
    } catch (stop) {
      if (stop instanceof Stop) return stop
      throw stop
    }
  }
  return {
    check(value) {
      start()
      try {
        return check(value, state)
      } catch (stop) {
        if (stop instanceof Stop) return false
        throw stop
      }
    },
    issues(value) {
      const verdict = attempt(() => check(value, state))
      if (verdict === true) return []
      const issues: Issue[] = []
      state.issues = issues
      state.issuesLeft = limits.issues
      const ended = attempt(() => node.report(value, state, ''))
      state.issues = []
      if (ended instanceof Stop && ended !== enough) issues.push({ path: '', message: ended.reason })
      else if (issues.length === 0 && verdict instanceof Stop) issues.push({ path: '', message: verdict.reason })
      return issues
    },
  }
}

/** Refuses the same schemas as `compileSchema`, without building or caching anything. */
export function checkSchema(schema: JsonSchema, options: CompileOptions = {}): void {
  loadSchema(schema, options)
}

/** Turns a verified schema into one node; targets of references are compiled from a list, so that chains cannot nest. */
function compileLocation(root: Location, registry: Registry, assertFormat: boolean): Node {
  const pending: Location[] = []
  const nodeOf = (location: Location): Node => {
    if (location.node === undefined) {
      location.node = unfinished()
      pending.push(location)
    }
    return location.node
  }
  const node = nodeOf(root)
  for (let location = pending.pop(); location !== undefined; location = pending.pop()) {
    if (location.node !== undefined)
      Object.assign(location.node, compileNode(location, { registry, assertFormat, nodeOf }))
  }
  return node
}

interface Context {
  readonly registry: Registry
  readonly assertFormat: boolean
  readonly nodeOf: (location: Location) => Node
}

function compileNode(location: Location, context: Context): Node {
  if (typeof location.schema === 'boolean') return location.schema ? always() : never(location.path)
  const rules = compileKeywords(location, location.schema, context)
  const node = compose(rules)
  return context.registry.dynamic && location.resource.root === location ? inScope(node, location.resource) : node
}

/** The compiled keywords of one schema, cheap ones first and `unevaluated…` last. */
function compileKeywords(location: Location, schema: SchemaObject, context: Context): Node[] {
  const { dialect } = location.resource
  const evaluating: Node[] = []
  const found: { readonly rank: number; readonly node: Node }[] = []
  for (const keyword of dialect.legacy && Object.hasOwn(schema, '$ref') ? ['$ref'] : Object.keys(schema)) {
    const definition = dialect.keywords.get(keyword)
    const node = definition?.build?.(schema[keyword], new KeywordSite(schema, keyword, location, context, evaluating))
    if (definition === undefined || node === undefined) continue
    found.push({ rank: definition.rank, node })
    if (definition.vocabulary !== 'unevaluated') evaluating.push(node)
  }
  return found.sort((left, right) => left.rank - right.rank).map(({ node }) => node)
}

/** The context in which a keyword is compiled. */
class KeywordSite implements Site {
  readonly schema: SchemaObject
  readonly keyword: string
  readonly path: string
  readonly location: Location
  readonly #context: Context
  readonly #evaluating: readonly Node[]

  constructor(
    schema: SchemaObject,
    keyword: string,
    location: Location,
    context: Context,
    evaluating: readonly Node[],
  ) {
    this.schema = schema
    this.keyword = keyword
    this.path = join(location.path, keyword)
    this.location = location
    this.#context = context
    this.#evaluating = evaluating
  }

  get assertFormat(): boolean {
    return this.#context.assertFormat || this.location.resource.dialect.assertFormat
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
    const schema = Object.hasOwn(this.schema, keyword) ? this.schema[keyword] : undefined
    return isSchema(schema) ? this.#compile(schema, join(this.location.path, keyword)) : undefined
  }

  siblings(): readonly Node[] {
    return this.#evaluating
  }

  nodeOf(location: Location): Node {
    return this.#context.nodeOf(location)
  }

  pattern(source: string): Pattern {
    return this.#context.registry.patternOf(source)
  }

  #compile(schema: JsonSchema, path: string): Node {
    const known = typeof schema === 'object' ? this.location.resource.locations.get(schema) : undefined
    return compileNode(known ?? newLocation(schema, path, 0, this.location.resource), this.#context)
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
