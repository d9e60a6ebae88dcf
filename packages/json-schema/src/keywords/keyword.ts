import type { JsonSchema } from '@gantry/contract'
import { addIssue, type Node, type State } from '../node.ts'
import type { Pattern } from '../patterns/pattern.ts'
import type { Place, Resource, SchemaObject } from '../place.ts'

/** What a keyword's value must look like; `shapes.ts` checks it and finds the sub-schemas in it. */
export type Shape =
  | 'any'
  | 'anchor'
  | 'boolean'
  | 'count'
  | 'dependencies'
  | 'enum'
  | 'id'
  | 'items'
  | 'number'
  | 'pattern'
  | 'patterns'
  | 'positive'
  | 'reference'
  | 'schema'
  | 'schemaList'
  | 'schemaMap'
  | 'string'
  | 'names'
  | 'namesMap'
  | 'type'

export type Vocabulary = 'core' | 'applicator' | 'unevaluated' | 'validation' | 'format' | 'content'

/** Where a keyword is compiled, and how it reaches its surroundings. */
export interface Site {
  readonly schema: SchemaObject
  readonly keyword: string
  /** Schema path of the keyword. */
  readonly path: string
  readonly place: Place
  readonly assertFormat: boolean
  /** Compiles a sub-schema of this keyword. */
  child(schema: JsonSchema, ...segments: readonly (string | number)[]): Node
  /** Compiles the schema under another keyword of the same schema. */
  sibling(keyword: string): Node | undefined
  /** The other keywords of the same schema, for `unevaluated…`; the list is whole once all are compiled. */
  siblings(): readonly Node[]
  /** The node of a place, compiled later when need be. */
  nodeOf(place: Place): Node
  pattern(source: string): Pattern
  readonly resources: Iterable<Resource>
  /** True when some document uses `$dynamicRef`, so that checks must keep the dynamic scope. */
  readonly dynamic: boolean
}

export interface Keyword {
  readonly shape: Shape
  readonly vocabulary: Vocabulary
  /** Applies its sub-schemas to the value itself, so that a reference loop through it never ends. */
  readonly inPlace?: true
  /** Lower ranks run first: cheap assertions before applicators, `unevaluated…` last. */
  readonly rank: number
  readonly build?: (value: unknown, site: Site) => Node | undefined
}

/** A keyword that only asserts: a check and a sentence. */
export function assertion(
  site: Site,
  check: (value: unknown, state: State) => boolean,
  message: (value: unknown) => string,
): Node {
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

/** A keyword that applies sub-schemas. */
export function applicator(
  children: readonly Node[],
  parts: Pick<Node, 'check' | 'report'> & Partial<Pick<Node, 'collect' | 'covered'>>,
): Node {
  let height = 0
  for (const child of children) if (child.height > height) height = child.height
  return { collect: undefined, covered: false, ...parts, height: height + 1, types: 0 }
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `1 item`, `2 items`, `2 properties`. */
export function plural(count: number, noun: string): string {
  if (count === 1) return `1 ${noun}`
  return `${count} ${noun.endsWith('y') ? `${noun.slice(0, -1)}ie` : noun}s`
}
