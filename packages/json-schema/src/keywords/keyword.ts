import type { JsonSchema } from '@gantry/contract'
import type { Location, Resource, SchemaObject } from '../location.ts'
import { addIssue, type Node, type State } from '../node.ts'
import type { Pattern } from '../patterns/pattern.ts'

/** The shape of a keyword's value, and its type once `verify.ts` has checked it. */
interface ShapeValues {
  any: unknown
  anchor: string
  boolean: boolean
  count: number
  dependencies: Readonly<Record<string, JsonSchema | readonly string[]>>
  enum: readonly unknown[]
  id: string
  items: JsonSchema | readonly JsonSchema[]
  number: number
  pattern: string
  patterns: Readonly<Record<string, JsonSchema>>
  positive: number
  reference: string
  schema: JsonSchema
  schemaList: readonly JsonSchema[]
  schemaMap: Readonly<Record<string, JsonSchema>>
  string: string
  names: readonly string[]
  namesMap: Readonly<Record<string, readonly string[]>>
  type: string | readonly string[]
}

export type Shape = keyof ShapeValues

export type Vocabulary = 'core' | 'applicator' | 'unevaluated' | 'validation' | 'format' | 'content'

/** Where a keyword is compiled, and how it reaches its surroundings. */
export interface Site {
  readonly schema: SchemaObject
  readonly keyword: string
  /** Schema path of the keyword. */
  readonly path: string
  readonly location: Location
  readonly assertFormat: boolean
  /** Compiles a sub-schema of this keyword. */
  child(schema: JsonSchema, ...segments: readonly (string | number)[]): Node
  /** Compiles the schema under another keyword of the same schema. */
  sibling(keyword: string): Node | undefined
  /** The other keywords of the same schema, for `unevaluated…`; the list is whole once all are compiled. */
  siblings(): readonly Node[]
  /** The node of a location, compiled lazily. */
  nodeOf(location: Location): Node
  pattern(source: string): Pattern
  readonly resources: Iterable<Resource>
  /** True when some document uses `$dynamicRef`, so that checks must keep the dynamic scope. */
  readonly dynamic: boolean
}

export interface Keyword<S extends Shape = Shape> {
  readonly shape: S
  readonly vocabulary: Vocabulary
  /** Applies its sub-schemas to the value itself, so that a reference loop through it never ends. */
  readonly inPlace?: true
  /** Lower ranks run first: cheap assertions before applicators, `unevaluated…` last. */
  readonly rank: number
  /** Compiles the keyword; its value has been verified to be of the shape. */
  build?(value: ShapeValues[S], site: Site): Node | undefined
}

/** A keyword that only asserts: a check and a sentence. */
export function assertion(site: Site, check: Node['check'], message: (value: unknown) => string): Node {
  const { path, keyword } = site
  return {
    check,
    report(value, state, at) {
      if (!check(value, state)) addIssue(state, at, path, keyword, message(value))
    },
    collect: undefined,
    height: 0,
    types: 0,
    covered: false,
  }
}

/** A keyword whose number limits a value. Each limit has a check of its own, so that the engine can inline it. */
export function limit<S extends 'count' | 'number' | 'positive'>(
  shape: S,
  check: (limit: number) => (value: unknown, state: State) => boolean,
  message: (limit: number, value: unknown) => string,
): Keyword<S> {
  return {
    shape,
    vocabulary: 'validation',
    rank: 1,
    build: (value, site) => assertion(site, check(value), (instance) => message(value, instance)),
  }
}

/** A keyword that applies sub-schemas. */
export function applicator(
  children: readonly Node[],
  parts: Pick<Node, 'check' | 'report'> & Partial<Pick<Node, 'collect' | 'covered'>>,
): Node {
  let height = 0
  for (const child of children) if (child.height > height) height = child.height
  return { collect: undefined, covered: false, ...parts, height: height + 1, types: 0 }
}

/** `1 item`, `2 items`, `2 properties`. */
export function plural(count: number, noun: string): string {
  if (count === 1) return `1 ${noun}`
  return `${count} ${noun.endsWith('y') ? `${noun.slice(0, -1)}ie` : noun}s`
}
